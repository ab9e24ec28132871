"""Records that a truncation will remove: copied before anything else is done."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from replica_audit.program import command_line
from replica_audit.report.facts.recovery_facts import PartitionKey, RecoveryFacts, ReplicaKey, will_be_cut
from replica_audit.report.plan.elections import leaders_by_plan
from replica_audit.report.plan.followers import unknown_tails
from replica_audit.report.plan.gone import brokers_shown, is_stopped
from replica_audit.report.plan.kafka_files import SERVER, table_csv
from replica_audit.report.plan.names import partition_shown
from replica_audit.report.plan.steps import PlanFile, PlanPart, PlanStep, Presumption, Safety
from replica_audit.report.plan.truncations import FILE as TRUNCATIONS
from replica_audit.report.plan.truncations import cut_away, truncations, truncations_csv
from replica_audit.words import count

FILE = "save-first.csv"
_NAMED = 5


def saving(facts: RecoveryFacts) -> PlanPart:
    """One step that names the directories to copy; none where nothing is going to be removed."""
    held = set(_holders(facts))
    unknown = {one for one in unknown_tails(facts) - held if facts.log_of(*one) is not None}
    holders = sorted(one for one in held | unknown if one[2] not in facts.gone)
    lost = sorted({broker for *_key, broker in held} & facts.gone)
    if not holders:
        return PlanPart(steps=_only_copies(facts, lost))
    rows: list[tuple[str | int, ...]] = [("broker_id", "log_dir", "directory")]
    for topic, partition, broker in holders:
        log = facts.log_of(topic, partition, broker)
        directory = log.directory if log else f"{topic}-{partition}"
        rows.append((broker, log.log_dir if log else "", f"./{directory}" if directory.startswith("-") else directory))
    brokers = brokers_shown({broker for *_key, broker in holders})
    return PlanPart(
        steps=(
            PlanStep(
                safety=Safety.SAVE,
                title=f"Copy {count(len(holders), 'replica directory', 'replica directories')} of {brokers} to a safe place",
                reasons=(
                    f"They {'hold' if held else 'may hold'} records that the leader does not: as soon as such a replica follows the "
                    f"leader, it truncates them. The directories are in {FILE}, with the log directory as audited; on the broker it is one "
                    "of its `log.dirs`.",
                    "Replicas of one partition have the same directory name on every broker: keep each broker's copies apart.",
                    "If you audited copies that were made after these brokers stopped, those are the copies: keep them.",
                    f"Which replica truncates how much, under which leader: {TRUNCATIONS}.",
                    *_more_once_corrected(facts),
                    *_of_unknown(sorted(unknown)),
                    *_copies(lost),
                ),
                commands=(
                    "# on each broker, while it is stopped: mkdir -p SAFE_PLACE/broker-BROKER_ID; then, for each line of save-first.csv:",
                    "# cp -a LOG_DIR/DIRECTORY SAFE_PLACE/broker-BROKER_ID/",
                    *_salvage(facts),
                ),
                check=("# diff -r LOG_DIR/DIRECTORY SAFE_PLACE/broker-BROKER_ID/DIRECTORY   # prints nothing",),
                undo="Nothing to undo. Delete the copies once nobody needs them.",
                files=(
                    PlanFile(name=FILE, content=table_csv(rows)),
                    PlanFile(name=TRUNCATIONS, content=truncations_csv(truncations(facts))),
                ),
            ),
        ),
        presumptions=tuple(_stopped(facts, holders)),
    )


def _stopped(facts: RecoveryFacts, holders: Collection[tuple[str, int, int]]) -> Iterator[Presumption]:
    """A broker that runs truncates by itself, copied or not. Of partitions without a leader the elections say it."""
    found = {broker for topic, partition, broker in holders if (topic, partition) not in facts.leaderless}
    for holds in (True, None, False):
        brokers = {broker for broker in found if is_stopped(facts, broker) is holds}
        if brokers:
            stopped, them = ("is stopped, and stays so", "it") if len(brokers) == 1 else ("are stopped, and stay so", "them")
            yield Presumption(
                what=f"{brokers_shown(brokers)} {stopped} until the copies are made",
                holds=holds,
                how_to_check=f"kafka-broker-api-versions.sh {SERVER}   # does not list {them}",
            )


def _salvage(facts: RecoveryFacts) -> Iterator[str]:
    """The lines that save the records."""
    gone = "".join(f" --gone {broker}" for broker in sorted(facts.gone))
    yield f"# the records themselves, where the audit ran: {command_line('salvage')} --local{gone} --output SAVED"
    yield "# (after `triage`: the same triage with --salvage SAVED); SAVED/SALVAGE.md says how to send them again, as the last step"


def _more_once_corrected(facts: RecoveryFacts) -> Iterator[str]:
    """Where only the copied directories hold all that is removed: a salvage is made of what the files as they are remove."""
    verdicts = {(*one.key, one.follower_id): one for one in facts.verdicts}
    found = [
        f"{partition_shown(topic, partition)} on broker {broker}"
        for (topic, partition, broker), then in sorted(facts.cut_once_corrected.items())
        if (now := verdicts.get((topic, partition, broker))) is None
        or (now.truncation_offset, now.restart_offset) != (then.truncation_offset, then.restart_offset)
    ]
    if found:
        yield (
            "With the leader-epoch-checkpoints that this plan corrects, these replicas truncate elsewhere than they do now, and a salvage "
            f"of this run lacks what lies between: keep the copies of their directories ({_some(found)})."
        )


def _of_unknown(replicas: Sequence[ReplicaKey]) -> Iterator[str]:
    if replicas:
        shown = [f"{partition_shown(topic, partition)} on broker {broker}" for topic, partition, broker in replicas]
        yield (
            f"Of these nobody knows what they truncate, since they or their leaders could not be read: a salvage of this run lacks it "
            f"({_some(shown)})."
        )


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_NAMED])}{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}"


def _copies(lost: Collection[int]) -> Iterator[str]:
    if lost:
        yield (
            f"Of {brokers_shown(lost)} only the audited copy is left: it holds records that no other replica has. Keep it; the salvage "
            "reads it, too."
        )


def _only_copies(facts: RecoveryFacts, lost: Collection[int]) -> tuple[PlanStep, ...]:
    """Nobody truncates anything; but copies of brokers that are gone hold what nobody else has."""
    if not lost:
        return ()
    return (
        PlanStep(
            safety=Safety.SAVE,
            title=f"Save the records that only the audited copy of {brokers_shown(lost)} holds",
            reasons=tuple(_copies(lost)),
            commands=tuple(_salvage(facts)),
            check=("# SAVED/SALVAGE.md lists what was saved and what could not be saved",),
            undo="Nothing to undo.",
            files=(PlanFile(name=TRUNCATIONS, content=truncations_csv(truncations(facts))),),
        ),
    )


def _holders(facts: RecoveryFacts) -> Iterator[tuple[str, int, int]]:
    """The replicas with records that their leader, or the one that the plan elects, does not hold."""
    for verdict in (*facts.verdicts, *facts.cut_copies):
        if will_be_cut(verdict) and verdict.key not in facts.leaderless:
            yield (*verdict.key, verdict.follower_id)
    yield from facts.cut_once_corrected
    for key, choice in leaders_by_plan(facts).items():
        cuts = facts.cuts_under(*key, choice.candidate_id)
        if cuts:
            yield from ((*key, cut.broker_id) for cut in cuts if cut_away(cut))
        elif choice.lost_offsets:
            yield from _others(facts, key, choice.candidate_id)


def _others(facts: RecoveryFacts, key: PartitionKey, leader: int) -> Iterator[tuple[str, int, int]]:
    for role in facts.replicas.get(key, ()):
        if role.broker_id != leader and facts.log_of(*key, role.broker_id) is not None:
            yield (*key, role.broker_id)
