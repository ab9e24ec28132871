"""Consumer groups behind a truncation: where they are to go on, by policy."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.recovery_facts import RecoveryFacts
from replica_audit.report.plan.kafka_files import SERVER, rows_csv, script
from replica_audit.report.plan.names import file_name, partition_shown, shown
from replica_audit.report.plan.steps import GroupPolicy, PlanFile, PlanPart, PlanRefusal, PlanStep, Safety
from replica_audit.rows.history import ConsumerImpact
from replica_audit.words import count

_SCRIPT, _PREVIEW = "reset-groups.sh", "reset-groups-preview.sh"
_RE_READ = (
    "read again from the offset at which the leader's log differs from what they consumed: they skip nothing, and may process records twice"
)
_SKIP = "stay where they are, or move to the leader's log end: they process nothing twice, and skip what the leader has at those offsets"

_NO_ARGUMENT = (
    "no command line can name the group, whose id is empty or holds a NUL: reset it by a client of your own "
    "(Admin.alterConsumerGroupOffsets)"
)


def group_resets(facts: RecoveryFacts, policy: GroupPolicy) -> PlanPart:
    """One step with a file for each group; positions of partitions that nobody leads are refused."""
    places: dict[str, list[tuple[str, int, int]]] = {}
    refusals = []
    for group in facts.groups:
        offset = _offset(facts, group, policy)
        where = partition_shown(group.topic, group.partition)
        if not group.group_id or "\0" in group.group_id:
            refusals.append(PlanRefusal(what=f"reset group {shown(group.group_id)} on", where=(where,), why=_NO_ARGUMENT))
        elif offset is None:
            why = "nobody leads the partition" if (group.topic, group.partition) in facts.leaderless else "the leader's log is not known"
            why = f"{why}: audit again once it is online: then the group's position is known"
            refusals.append(PlanRefusal(what=f"reset group {shown(group.group_id)} on", where=(where,), why=why))
        else:
            places.setdefault(group.group_id, []).append((group.topic, group.partition, offset))
    return PlanPart(steps=tuple(_steps(places, policy)), refusals=tuple(refusals))


def _offset(facts: RecoveryFacts, group: ConsumerImpact, policy: GroupPolicy) -> int | None:
    """Where the group goes on; None where that is not known."""
    roles = facts.replicas.get((group.topic, group.partition), [])
    log = facts.log_of(group.topic, group.partition, roles[0].leader_id) if roles else None
    if log is None or log.log_start_offset is None or log.log_end_offset is None or (group.topic, group.partition) in facts.leaderless:
        return None
    wanted = group.committed_offset
    if policy is GroupPolicy.RE_READ:
        wanted = log.log_start_offset if group.reset_offset is None else min(group.reset_offset, group.committed_offset)
    return max(log.log_start_offset, min(wanted, log.log_end_offset))


def _steps(places: dict[str, list[tuple[str, int, int]]], policy: GroupPolicy) -> Iterator[PlanStep]:
    if not places:
        return
    files = {group: f"reset-{file_name(group)}.csv" for group in sorted(places)}
    lines = {
        mode: [
            ("kafka-consumer-groups.sh", f"--group={group}", "--reset-offsets", f"--from-file={name}", mode)
            for group, name in files.items()
        ]
        for mode in ("--dry-run", "--execute")
    }
    yield PlanStep(
        safety=Safety.GROUPS,
        title=f"Reset {count(len(places), 'consumer group')}: {policy}",
        reasons=(
            f"Their committed offsets point at records that were truncated. They {_RE_READ if policy is GroupPolicy.RE_READ else _SKIP}. "
            f"For the other policy: --groups {GroupPolicy.SKIP if policy is GroupPolicy.RE_READ else GroupPolicy.RE_READ}.",
            f"Groups: {', '.join(shown(group) for group in list(files)[:20])}{' and more' if len(files) > 20 else ''}.",
        ),
        commands=("# stop the consumers of these groups: Kafka does not reset a group that has members", f"sh {_PREVIEW}", f"sh {_SCRIPT}"),
        check=(
            f"kafka-consumer-groups.sh {SERVER} --describe --all-groups   # CURRENT-OFFSET is what the preview printed as NEW-OFFSET",
            "# start one consumer and check the first records that it reads",
        ),
        undo="Keep what the preview printed; to go back, reset to those offsets with a file of the same form (topic,partition,offset).",
        files=(
            *(PlanFile(name=name, content=rows_csv(sorted(places[group]))) for group, name in files.items()),
            PlanFile(name=_PREVIEW, content=script(lines["--dry-run"]), executable=True),
            PlanFile(name=_SCRIPT, content=script(lines["--execute"]), executable=True),
        ),
    )
