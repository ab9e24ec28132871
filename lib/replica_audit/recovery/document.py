"""PLAN.md: what a person reads at night before typing anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.recovery.names import place_shown, shown
from replica_audit.recovery.steps import Plan, PlanStep, Stage
from replica_audit.words import count

_MOST = 20  # places named in a refusal
_HOLDS = {True: "the run confirms it", False: "THE RUN CONTRADICTS IT", None: "the run does not show it"}


def render_plan(plan: Plan, brokers: Sequence[str] = (), finding_count: int = 0) -> str:
    """The whole document.

    Args:
        plan: whose steps it has.
        brokers: lines that say of each broker whether it may be started, as the summary has them.
        finding_count: findings of the run, whether or not a step repairs them.
    """
    return (
        "\n".join(
            [
                *_head(plan),
                *_brokers(brokers),
                *_in_short(plan, finding_count),
                *plan.truncations,
                *_instead(plan),
                *_how(plan),
                *_presumed(plan),
                *_steps(plan),
                *_afterwards(plan),
                *_refused(plan),
            ]
        )
        + "\n"
    )


def _head(plan: Plan) -> Iterator[str]:
    yield from (f"# Plan for cluster {shown(plan.cluster_id)}", "")
    yield f"Made from audit run {shown(plan.run_id)}. Nothing was executed."
    yield ""


def _brokers(lines: Sequence[str]) -> Iterator[str]:
    """As code: no name in it is Markdown, and no line but the first of a broker begins at the margin."""
    if lines:
        yield from ("## Brokers: what starting each one does now, before any step", "", "```text", *lines, "```", "")


def _in_short(plan: Plan, finding_count: int) -> Iterator[str]:
    """The steps by their titles, or why there are none."""
    if plan.steps:
        yield from ("## The steps in short", "", *(f"{number}. {step.title}" for number, step in enumerate(plan.steps, 1)), "")
        if any(one.commands for one in plan.instead):
            yield from ("**Choose first:** an election in place of these steps costs nothing that was copied, see *Other ways*.", "")
    elif plan.refusals:
        yield from ("**No step is safe to take.** Below is why nothing is planned.", "")
    elif finding_count:
        said = f"The run has {count(finding_count, 'finding')}, and no step of a plan repairs {'it' if finding_count == 1 else 'them'}"
        yield from (f"**The plan is empty.** {said}: `explain` shows what is known.", "")
    else:
        yield from ("**There is nothing to do: the plan is empty.**", "")


def _how(plan: Plan) -> Iterator[str]:
    """How the steps are to be taken; the address of the cluster where a line needs it."""
    if not plan.steps:
        return
    yield from ("## Before you begin", "")
    yield "Take the steps one by one in this order, check each, and stop if a check fails. Lines that begin with `#` are for you to do."
    used = "\n".join([*(line for step in plan.steps for line in _lines(step)), *(one.how_to_check for one in plan.presumptions)])
    used = "\n".join([used, *(line for one in plan.instead for line in one.commands)])
    names = [name for name in ("BOOTSTRAP", "ZOOKEEPER") if name in used]
    if names:
        yield "The commands are Kafka's own tools; type them in this folder."
        if "BOOTSTRAP" in names:
            yield "`BOOTSTRAP` is HOST:PORT of a running broker, or of the first one that you start. If the cluster asks for credentials,"
            elects = " (`--admin.config FILE` to kafka-leader-election.sh)" if "kafka-leader-election.sh" in used else ""
            yield f"add `--command-config FILE`{elects}."
        if "ZOOKEEPER" in names:
            yield "`ZOOKEEPER` is HOST:PORT of ZooKeeper."
        yield from ("", "```sh", *(f"export {name}=HOST:PORT" for name in names), "```")
    yield ""


def _lines(step: PlanStep) -> Iterator[str]:
    yield from step.commands
    yield from (check.command for check in step.checks)
    yield from (file.content for file in step.files if file.executable)


def _instead(plan: Plan) -> Iterator[str]:
    if plan.instead:
        yield from ("## Other ways, and what they cost", "")
        yield "What a follower truncates can be sent again from its copy, with new offsets and timestamps: groups meet it later. Or that"
        yield "follower is elected instead: uncleanly, while the present leader does not run; what was written to that one since it was"
        here = " Where that costs nothing of what was copied, its commands are here: choose before you begin."
        yield from (f"copied is lost, too.{here if any(one.commands for one in plan.instead) else ''}", "")
        for one in plan.instead:
            yield f"- {one.text}"
            if one.commands:
                yield from ("", "  ```sh", *(f"  {line}" for line in one.commands), "  ```", "")
        yield ""


def _presumed(plan: Plan) -> Iterator[str]:
    if plan.presumptions and plan.steps:
        yield from ("## What this plan assumes: check it before the first step", "")
        for one in plan.presumptions:
            yield f"- {one.what} ({_HOLDS[one.holds]}):"
            yield from ("", "  ```sh", f"  {one.how_to_check}", "  ```", "")


def _steps(plan: Plan) -> Iterator[str]:
    for number, step in enumerate(plan.steps, 1):
        yield from (f"## Step {number}: {step.title}", "", *(f"- {reason}" for reason in step.reasons), "")
        yield from _block("Do:", step.commands)
        yield from _block("Check:", tuple(check.command for check in step.checks))
        yield from (f"Undo: {step.undo}", "")
        if step.cannot_undo:
            yield from (f"**Cannot be undone:** {step.cannot_undo}.", "")
        yield from _files(step)


def _block(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    yield from (title, "", "```sh", *lines, "```", "")


def _files(step: PlanStep) -> Iterator[str]:
    if step.files:
        yield from (f"Files: {', '.join(shown(file.name) for file in step.files[:20])}{' and more' if len(step.files) > 20 else ''}", "")


def _afterwards(plan: Plan) -> Iterator[str]:
    if plan.steps:
        yield from ("## Afterwards", "")
        yield "- Audit again with new copies, and plan again: by then the leaders and the groups' positions are known."
        if any(step.stage is Stage.COPY for step in plan.steps):
            yield "- When every replica is in sync, send the saved records again: the commands are in `SALVAGE.md` of the salvage."
        yield ""


def _refused(plan: Plan) -> Iterator[str]:
    if plan.refusals:
        yield from ("## What this plan does not do, and why", "")
        for one in plan.refusals:
            more = f" and {len(one.of) - _MOST} more" if len(one.of) > _MOST else ""
            yield f"- {' '.join([one.what, ', '.join(map(place_shown, one.of[:_MOST]))]).strip()}{more}: {one.why}."
        yield ""
