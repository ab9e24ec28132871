"""All that a cluster needs, in order: what is copied, asked for, started, ended, rebuilt and reset, walked as it is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from replica_audit.program import command_line
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.commands import Tools, election_json, table_csv
from replica_audit.recovery.corrected_files import corrections, named_first
from replica_audit.recovery.discharge import open_by_facts, unknown_brokers
from replica_audit.recovery.elections import leaders_by_plan, led_by_plan, one_by_one
from replica_audit.recovery.endings import group_resets, transactions
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, known_cut
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.invariants import refuse_defects
from replica_audit.recovery.names import partition_shown, place_shown, some
from replica_audit.recovery.other_ways import other_ways
from replica_audit.recovery.questions import asking, questions, questions_about_brokers
from replica_audit.recovery.rebuilds import left_as_they_are, rebuild_steps, rebuilds
from replica_audit.recovery.replacing import replacing
from replica_audit.recovery.start_text import SAID_OF
from replica_audit.recovery.starting import starts
from replica_audit.recovery.state import Removal, apply, first_state
from replica_audit.recovery.steps import (
    Check,
    Copy,
    ElectPreferred,
    EndTransaction,
    GroupPolicy,
    KeepCopy,
    Plan,
    PlanFile,
    PlanPart,
    PlanRefusal,
    PlanStep,
    Presumption,
    SetAside,
    Shows,
    Stage,
    TakeOut,
)
from replica_audit.recovery.truncations import FILE as TRUNCATIONS
from replica_audit.recovery.truncations import cut_away, truncations, truncations_csv, truncations_text
from replica_audit.rows.starts import OUTCOME_OF, StartBecause, StartOutcome
from replica_audit.words import count

FILE = "save-first.csv"
_LOST_SINCE = (Verdict.COMMITTED_LOSS, Verdict.STALE_TAIL)
_SAME = "# diff -r LOG_DIR/DIRECTORY SAFE_PLACE/COPY_TO/DIRECTORY   # prints nothing; of a snapshot: there"


def plan_of(facts: RecoveryFacts, policy: GroupPolicy) -> Plan:
    """What to do about the findings of a cluster; no step where there is nothing to do.

    Raises:
        PlanDefectError: the plan would break one of its own rules.
    """
    tools, asked = Tools.of(facts.kafka_version, facts.protocol), questions(facts)
    waiting = frozenset(replica for one in asked for replica in one.replicas)
    facts, not_started = _held_back(facts, waiting)
    rebuilt, not_rebuilt = rebuilds(facts, waiting)
    started = starts(facts, waiting, rebuilt, tools)
    replaced = replacing(facts, tools)
    parts = [
        started.part,
        transactions(facts, waiting),
        replaced,
        rebuild_steps(facts, rebuilt, tools),
        PlanPart(refusals=(*not_started, *not_rebuilt, *_needs_no_step(facts))),
        group_resets(facts, policy, tools, waiting),
        _still_open(facts),
    ]
    parts.append(_preferred(facts, tools, waiting, away=frozenset() if replaced.steps else facts.gone))
    asked = (*asked, *questions_about_brokers(facts, {broker for *_key, broker in waiting}))
    kept = {*left_as_they_are(facts, rebuilt, waiting), *facts.holding_alone}
    kept |= {one for of in asked for one in of.replicas if of.is_of_files or facts.is_stopped(one[2]) is not False}
    copied = _copying(facts, [step for part in parts for step in part.steps], kept, tools)
    has_more = any(step.stage > Stage.ASK for part in parts for step in part.steps)
    parts = [copied, PlanPart(steps=(*named_first(facts), *asking(asked, has_more=has_more))), *parts]
    plan = Plan(
        run_id=facts.run_id,
        cluster_id=facts.cluster_id,
        steps=tuple(sorted((step for part in parts for step in part.steps), key=lambda step: step.stage)),
        refusals=tuple(_joined(refusal for part in parts for refusal in part.refusals)),
        presumptions=tuple(dict.fromkeys(one for part in parts for one in part.presumptions)),
        truncations=tuple(truncations_text(truncations(facts))),
        instead=tuple(other_ways(facts, waiting, tools)),
        crossed=started.crossed,
    )
    return refuse_defects(facts, plan)


_AT_START = {
    StartBecause.TORN_END,
    StartBecause.BECOMES_STRAY,
    StartBecause.SETS_ASIDE,
    StartBecause.DELETES,
    StartBecause.RECOVERY_TRUNCATES,
}
"""What a broker does when it starts, and not as long as it runs."""


def _held_back(facts: RecoveryFacts, waiting: Collection[ReplicaKey]) -> tuple[RecoveryFacts, list[PlanRefusal]]:
    """The facts with the brokers that this plan does not start as they are, and why not; what is asked for says so itself.

    A broker that is not started takes leaders away that others wait for: until nobody is added.
    """
    corrected_on = corrections(facts, waiting, rebuilds(facts, waiting)[0])[0].keys()  # these are restarted, if they run
    facts = replace(facts, held=frozenset(unknown_brokers(facts)))
    while True:
        rebuilt, _not_rebuilt = rebuilds(facts, waiting)
        logs, _not_corrected = corrections(facts, waiting, rebuilt)
        corrected = {(log.topic, log.partition, log.broker_id) for of in logs.values() for log in of}
        missed = list(
            open_by_facts(facts, corrected | facts.torn | facts.topic_ids.keys(), rebuilt, led_by_plan(one_by_one(facts), waiting))
        )
        more = facts.held | {one.replica[2] for one in missed}
        if more == facts.held:
            break
        facts = replace(facts, held=more)
    refusals = []
    for one in missed:
        broker, reason = one.replica[2], one.reasons[0]
        runs = facts.is_stopped(broker) is False
        if OUTCOME_OF[reason] is not StartOutcome.UNKNOWN and (not runs or broker in corrected_on or _AT_START & {*one.reasons}):
            what = f"{'re' if runs else ''}start {brokers_shown([broker])} because of"
            refusals.append(PlanRefusal(what=what, of=(one.replica[:2],), why=_not_started(reason)))
    return facts, refusals


def _not_started(reason: StartBecause) -> str:
    if reason is StartBecause.OTHER_LOSES_LESS:
        return "it would lead as soon as it runs, and the election that loses less is not made by this plan"
    return f"{SAID_OF[reason]}, and no step of this plan mends that (`explain` has the evidence)"


# --- what is copied first ----------------------------------------------------------------------------------------------------------------


def _copying(facts: RecoveryFacts, steps: Sequence[PlanStep], kept: Collection[ReplicaKey], tools: Tools) -> PlanPart:
    """One step that names the directories to copy: all that the steps remove, or may, and what is `kept` as long as somebody decides."""
    truncated, deleted = _removed(facts, steps)
    truncated |= set(_at_stake(facts))
    held = truncated | deleted
    unknown = {one for one in kept if one not in held and facts.logs_of.get(one)}
    holders = sorted(one for one in held | unknown if one[2] not in facts.gone)
    lost, since = sorted({broker for *_key, broker in held} & facts.gone), _truncated_since(facts)
    table = PlanFile(name=TRUNCATIONS, content=truncations_csv(truncations(facts)))
    if not holders:
        return PlanPart(steps=tuple(_only_copies(facts, lost, held, table)))
    rows = _directories(facts, holders)
    of = brokers_shown({broker for *_key, broker in holders})
    kept_copies = sorted({*since, *(one for one in held if one[2] in facts.gone)})
    step = PlanStep(
        stage=Stage.COPY,
        title=f"Copy {count(len(rows) - 1, 'replica directory', 'replica directories')} of {of} to a safe place",
        actions=(Copy(tuple(holders)), *([KeepCopy(tuple(kept_copies))] if kept_copies else [])),
        reasons=(
            f"They {'hold' if held else 'may hold'} records that no other log keeps once a step below, or the start of a broker, "
            f"truncates, deletes or sets them aside. They are listed in {FILE}, with the log directory as audited; on the broker it is one "
            "of its `log.dirs`.",
            "Directories of one name, on several brokers or in several log directories of one, are copied apart: column `copy_to`.",
            "If you audited copies that were made after these brokers stopped, those are the copies: keep them.",
            f"Which replica truncates how much, under which leader: {TRUNCATIONS}.",
            *_of_running(facts, held),
            *_more_once_corrected(facts),
            *_copies(lost, since),
        ),
        commands=(
            "# on each broker, stopped or from a snapshot, for each line of save-first.csv:",
            "# mkdir -p SAFE_PLACE/COPY_TO; cp -a LOG_DIR/DIRECTORY SAFE_PLACE/COPY_TO/",
            *_salvage(facts),
        ),
        checks=(Check(_SAME, Shows.COPIED),),
        undo="Nothing to undo. Delete the copies once nobody needs them.",
        files=(PlanFile(name=FILE, content=table_csv(rows)), table),
    )
    waits = {one for one in unknown if facts.is_stopped(one[2]) is not False}
    cut = {(*one.key, one.follower_id) for one in facts.verdicts if known_cut(one)}
    only_at_start = {one for one in facts.lost_at_start if facts.is_stopped(one[2]) is False}
    followers = {one for one in truncated | waits if one[2] not in facts.gone} - ((facts.never_fetch | only_at_start) - cut)
    return PlanPart(steps=(step,), presumptions=(*_stopped(facts, followers, tools), *_still_lead(facts, truncated, tools)))


def _directories(facts: RecoveryFacts, holders: Iterable[ReplicaKey]) -> list[tuple[str | int, ...]]:
    """The lines of save-first.csv: each directory of some replicas, and a place for its copy that no directory of the same name has."""
    found = []
    for replica in holders:
        logs = facts.logs_of.get(replica, ())
        found += [(replica[2], *one) for one in [(log.log_dir, log.directory) for log in logs] or [("", "{}-{}".format(*replica))]]
    numbers: dict[int, dict[str, int]] = {}
    for broker, log_dir, _directory in found:
        of_broker = numbers.setdefault(broker, {})
        of_broker.setdefault(log_dir, len(of_broker) + 1)
    rows: list[tuple[str | int, ...]] = [("broker_id", "log_dir", "directory", "copy_to")]
    for broker, log_dir, directory in found:
        place = f"broker-{broker}" if len(numbers[broker]) == 1 else f"broker-{broker}/log-dir-{numbers[broker][log_dir]}"
        rows.append((broker, log_dir, f"./{directory}" if directory.startswith("-") else directory, place))
    return rows


def _removed(facts: RecoveryFacts, steps: Sequence[PlanStep]) -> tuple[set[ReplicaKey], set[ReplicaKey]]:
    """What the steps truncate, and what they delete."""
    state = first_state(facts)
    truncated: set[ReplicaKey] = set()
    deleted: set[ReplicaKey] = set()
    for step in sorted(steps, key=lambda one: one.stage):
        for action in step.actions:
            effects = list(apply(facts, state, action))
            truncated |= {effect.replica for effect in effects if isinstance(effect, Removal)}
            if isinstance(action, TakeOut | SetAside):
                deleted.add(action.replica)
            if isinstance(action, EndTransaction) and action.saved_from is not None:
                deleted.add((*action.key, action.saved_from))
    return truncated, deleted


def _at_stake(facts: RecoveryFacts) -> Iterator[ReplicaKey]:
    """The replicas with records that their leader, or the one that the plan elects, does not hold, whoever is started."""
    for verdict in (*facts.verdicts, *facts.cut_copies):
        if known_cut(verdict) and verdict.key not in facts.leaderless:
            yield (*verdict.key, verdict.follower_id)
    yield from facts.cut_once_corrected
    yield from facts.perhaps_cut_once_corrected
    yield from facts.lost_at_start
    for key, choice in leaders_by_plan(facts).items():
        cuts = facts.cuts_under(*key, choice.candidate_id)
        if cuts:
            yield from ((*key, cut.broker_id) for cut in cuts if cut_away(cut))
        elif choice.lost_offsets:
            others = (role.broker_id for role in facts.replicas.get(key, ()) if role.broker_id != choice.candidate_id)
            yield from ((*key, broker) for broker in others if facts.log_of(*key, broker) is not None)


def _stopped(facts: RecoveryFacts, holders: Collection[ReplicaKey], tools: Tools) -> Iterator[Presumption]:
    """A broker that runs truncates by itself, copied or not, once its leader runs. Of partitions without a leader the elections say it."""
    found = {_waits_for(facts, replica) for replica in holders if replica[:2] not in facts.leaderless}
    for holds in (True, None):
        brokers = {broker for broker in found if facts.is_stopped(broker) is holds}
        if brokers:
            stopped = "is stopped, and stays so" if len(brokers) == 1 else "are stopped, and stay so"
            yield Presumption(
                what=f"{brokers_shown(brokers)} {stopped} until the copies are made",
                holds=holds,
                how_to_check=tools.none_runs(brokers, any_runs=facts.anybody_runs),
            )


def _of_running(facts: RecoveryFacts, holders: Iterable[ReplicaKey]) -> Iterator[str]:
    running = {broker for *_key, broker in holders if facts.is_stopped(broker) is False}
    if running:
        yield (
            f"{brokers_shown(running).capitalize()} {'runs' if len(running) == 1 else 'run'}: copy at once, from a snapshot of the disk. "
            "What a replica has truncated since it was audited only the audited copy holds: keep that, too."
        )


def _still_lead(facts: RecoveryFacts, truncated: Collection[ReplicaKey], tools: Tools) -> Iterator[Presumption]:
    """Under another leader replicas truncate elsewhere."""
    led = {partition_shown(*one[:2]): facts.verdict_of[one].leader_id for one in sorted(truncated) if one in facts.verdict_of}
    if led:
        yield Presumption(
            what=f"the leaders are those of the audit: {some([f'broker {leader} of {name}' for name, leader in led.items()])}",
            holds=None,
            how_to_check=f"{tools.topics()}   # `Leader` of these is the same, or -1 while it is stopped: else audit again",
        )


def _waits_for(facts: RecoveryFacts, replica: ReplicaKey) -> int:
    """The broker without which a replica truncates nothing: its own, or its leader's where that alone is stopped."""
    verdict = facts.verdict_of.get(replica)
    is_led_by_stopped = verdict is not None and facts.is_stopped(replica[2]) is False and facts.is_stopped(verdict.leader_id)
    return verdict.leader_id if verdict is not None and is_led_by_stopped else replica[2]


def _salvage(facts: RecoveryFacts) -> Iterator[str]:
    """The lines that save the records."""
    gone = "".join(f" --gone {broker}" for broker in sorted(facts.gone))
    yield f"# the records themselves, where the audit ran: {command_line('salvage')} --local{gone} --output SAVED"
    yield "# (after `triage`: the same triage with --salvage SAVED); SAVED/SALVAGE.md says how to send them again, as the last step"


def _more_once_corrected(facts: RecoveryFacts) -> Iterator[str]:
    """Where only the copied directories hold all that is removed: a salvage is made of what the files as they are remove."""
    found = [
        f"{partition_shown(topic, partition)} on broker {broker}"
        for (topic, partition, broker), then in sorted(facts.cut_once_corrected.items())
        if (now := facts.verdict_of.get((topic, partition, broker))) is None
        or (now.truncation_offset, now.restart_offset) != (then.truncation_offset, then.restart_offset)
    ]
    if found:
        yield (
            "With the leader-epoch-checkpoints that this plan corrects, these replicas truncate elsewhere than they do now, and a salvage "
            f"of this run lacks what lies between: keep the copies of their directories ({some(found)})."
        )


def _truncated_since(facts: RecoveryFacts) -> list[ReplicaKey]:
    """The replicas that, after they were copied, truncated what their leaders do not hold."""
    found = (one for one in (*facts.verdicts, *facts.cut_copies) if one.already_truncated and one.lost_offsets != 0)
    return sorted((*one.key, one.follower_id) for one in found if one.verdict in _LOST_SINCE)


def _copies(lost: Collection[int], since: Collection[ReplicaKey]) -> Iterator[str]:
    if lost:
        yield (
            f"Of {brokers_shown(lost)} only the audited copy is left: it holds records that no other replica has. Keep it; the salvage "
            "reads it, too."
        )
    if since:
        yield (
            f"{some([place_shown(one) for one in since])}: truncated since it was copied, by its broker's server.log. Only the audited "
            "copy holds what is gone: keep it; the salvage reads it, too."
        )


def _only_copies(facts: RecoveryFacts, lost: Collection[int], held: Collection[ReplicaKey], table: PlanFile) -> Iterator[PlanStep]:
    """Nobody truncates anything; but the audited copies hold what nobody else has."""
    since = _truncated_since(facts)
    if lost or since:
        yield PlanStep(
            stage=Stage.COPY,
            title=f"Save the records that only the audited copy of {brokers_shown({*lost, *(broker for *_key, broker in since)})} holds",
            actions=(KeepCopy(tuple(sorted({*held, *since}))),),
            reasons=tuple(_copies(lost, since)),
            commands=tuple(_salvage(facts)),
            checks=(Check("# SAVED/SALVAGE.md lists what was saved and what could not be saved", Shows.COPIED),),
            undo="Nothing to undo.",
            files=(table,),
        )


# --- the rest ----------------------------------------------------------------------------------------------------------------------------


def _still_open(facts: RecoveryFacts) -> PlanPart:
    """What earlier runs found is planned for once it has been looked at again."""
    found, part = facts.still_open, facts.missing
    refusals = []
    if part is not None and part.broker_ids:
        why = "missing from the input, and an earlier run read it: copy its folder and audit again"
        refusals.append(PlanRefusal(what=f"act on {brokers_shown(part.broker_ids)}", of=(), why=why))
    if found.count:
        such_as = f" {found.count} partitions, such as" if found.count > len(found.first) else ""
        why = "this run could not check it, or found something else there: audit again with every broker's files"
        refusals.append(PlanRefusal(what=f"act on what earlier runs found in{such_as}", of=found.first, why=why))
    return PlanPart(refusals=tuple(refusals))


def _needs_no_step(facts: RecoveryFacts) -> Iterator[PlanRefusal]:
    """Findings under which nothing is lost, and that no step mends."""
    for one in facts.verdicts:
        if one.verdict == Verdict.REBATCHED:
            why = "the same records are in other batches: nothing has to be repaired, whichever replica leads"
            yield PlanRefusal(what="change", of=((*one.key, one.follower_id),), why=why)
        wrong = (*one.key, one.follower_id if one.wrong_epoch is None else one.wrong_epoch.broker_id)
        if one.verdict == Verdict.EPOCH_TABLE_ONLY and wrong not in facts.corrected:
            why = (
                "the records agree, and nothing is lost now; which lines the file should have is not proven, and a later exchange may "
                "truncate too much or too little: copy the file again, and where the broker has the same one, rebuild that replica from "
                "another one that leads (do not delete the file: after a clean stop no broker makes it again)"
            )
            yield PlanRefusal(what="correct the leader-epoch-checkpoint of", of=(wrong,), why=why)


def _joined(refusals: Iterable[PlanRefusal]) -> Iterator[PlanRefusal]:
    """One refusal for all places that it is about."""
    found: dict[tuple[str, str], list[PartitionKey | ReplicaKey]] = {}
    for one in refusals:
        found.setdefault((one.what, one.why), []).extend(one.of)
    for (what, why), of in found.items():
        yield PlanRefusal(what=what, of=tuple(of), why=why)


def _preferred(facts: RecoveryFacts, tools: Tools, waiting: Collection[ReplicaKey], away: Collection[int]) -> PlanPart:
    """Last, and only where something was elected: the leadership goes back to the preferred replicas, once they are in sync.

    `away` are brokers that are not back by then.
    """
    moved: list[PartitionKey] = []
    not_back = {*away, *(broker for *_key, broker in waiting)}
    for key, best in leaders_by_plan(facts).items():
        first = next((role for role in facts.replicas.get(key, ()) if role.position == 0), None)
        if first is not None and not {first.broker_id, best.candidate_id} & not_back and first.broker_id != best.candidate_id:
            moved.append(key)
    if not moved:
        return PlanPart()
    step = PlanStep(
        stage=Stage.PREFERRED,
        title=f"Give the leadership of {count(len(moved), 'partition')} back to the preferred replica",
        actions=tuple(map(ElectPreferred, sorted(moved))),
        reasons=("Not urgent. A preferred replica that is not in the ISR is not elected: this cannot lose anything.",),
        commands=(tools.elect_preferred("elect-preferred.json"),),
        checks=(Check(f"{tools.topics()}   # Leader is the first of Replicas", Shows.PREFERRED),),
        undo="Not needed: leaderships can be moved again in the same way.",
        files=(PlanFile(name="elect-preferred.json", content=election_json(sorted(moved))),),
    )
    return PlanPart(steps=(step,))
