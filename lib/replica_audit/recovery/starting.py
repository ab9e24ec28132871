"""Brokers that are started: each once, in one step, with the files that are corrected before and all that the start does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replica_audit.errors import visible
from replica_audit.formats.log_dir.names import PARTITION_METADATA
from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.commands import Tools, allow_unclean, election_json
from replica_audit.recovery.corrected_files import NAME, DiskWork, corrections, reasons_of
from replica_audit.recovery.elections import (
    MOST,
    key_of,
    leaders_by_plan,
    one_by_one,
    only_stopped,
    order_of,
    price,
    refusals_of_elections,
    running_rivals,
    total_price,
    why_elected,
    with_recovered,
)
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts, ReplicaKey, known_cut
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.names import partition_shown, some
from replica_audit.recovery.rebuilds import is_set_aside
from replica_audit.recovery.start_order import PlannedLeader, StartOrder
from replica_audit.recovery.start_text import lost_text
from replica_audit.recovery.state import Leads, Removal, State, apply, choice_of, first_state
from replica_audit.recovery.steps import (
    Action,
    Check,
    CorrectFile,
    Elect,
    NameTopic,
    PlanFile,
    PlanPart,
    PlanRefusal,
    PlanStep,
    Presumption,
    SetAside,
    Shows,
    Stage,
    StartBroker,
    StopBroker,
    WaitForIsr,
)
from replica_audit.rows.pairs import RecordsByTransaction
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.words import count

_MARKER = ".kafka_cleanshutdown"
_TRUNCATES = (Verdict.STALE_TAIL, Verdict.COMMITTED_LOSS, Verdict.INCONCLUSIVE)
_WHILE_STOPPED = (
    "Where a broker that this step stops is the only member of an ISR, the partition has no leader until it runs again. With "
    "unclean.leader.election.enable=true another replica would be elected, and what only that broker holds would be lost: set it to false "
    "first."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The steps that start brokers, and the partitions that get another leader by it than the best one."""

    part: PlanPart
    crossed: frozenset[PartitionKey] = frozenset()


def starts(facts: RecoveryFacts, waiting: frozenset[ReplicaKey], rebuilt: Mapping[ReplicaKey, str], tools: Tools) -> Starts:
    """Every broker that is to be started, in order.

    Args:
        facts: of the cluster.
        waiting: replicas that wait for an answer: their brokers are neither started nor stopped.
        rebuilt: replicas that are fetched again, each with why: those of brokers that do not run are set aside before these start.
        tools: of the cluster's version.
    """
    blocked = {broker for *_key, broker in waiting} | facts.held
    aside = {replica: why for replica, why in rebuilt.items() if is_set_aside(facts, replica)}
    named = {one: topic_id for one, topic_id in facts.topic_ids.items() if one[2] not in blocked and one not in aside}
    torn = {replica for replica in facts.torn if replica[2] not in blocked and replica not in aside}
    facts = with_recovered(facts, {broker for *_key, broker in torn})
    corrected, refusals = corrections(facts, waiting, rebuilt)
    if facts.offline and only_stopped(facts):
        if not (corrected or torn or aside or named or blocked) and not _truncates_at_once(facts):
            return Starts(part=PlanPart(steps=tuple(_all_stopped(facts)), refusals=tuple(refusals)))
        facts = one_by_one(facts)
    order = order_of(facts, waiting)
    planned = leaders_by_plan(facts, waiting)
    assigned = {role.broker_id for key in planned for role in facts.replicas.get(key, ())}
    cut = {replica[2] for replica in _cut_when_started(facts)}
    others = {broker for broker in assigned | cut if facts.is_stopped(broker) is not False}
    repaired = {*corrected, *(broker for *_key, broker in (*torn, *aside, *named))}
    stopped_for_elections = {rival for one in order.leaders for rival in running_rivals(facts, one.rivals)}
    elected = {broker for broker in order.brokers if facts.is_stopped(broker) is False}  # they run: nothing is done to them by it
    wanted = {*order.brokers, *others, *repaired, *stopped_for_elections} - facts.gone - blocked | elected
    leading = {broker: depth for broker, depth in _stopped_leaders(facts, wanted).items() if broker not in facts.gone | blocked}
    made = _Maker(facts, order, corrected, torn, tools)
    made.on_disk(aside, named)
    first, last = _sequence(facts, order, corrected, wanted | leading.keys(), repaired, leading)
    steps = [made.one(broker) for broker in first]
    if last:
        steps.append(made.several(last))
    refusals += refusals_of_elections(facts, order, waiting)
    refusals += made.crossed_refusals()
    refusals += (_stays_behind(replica) for replica in sorted(made.state.stuck) if replica[:2] in facts.leaderless)
    return Starts(
        part=PlanPart(steps=tuple(steps), refusals=tuple(refusals), presumptions=tuple(_presumptions(facts, order, tools))),
        crossed=frozenset({*(key_of(one.partition) for one in order.crossed), *made.crossed}),
    )


def _stays_behind(replica: ReplicaKey) -> PlanRefusal:
    return PlanRefusal(
        what="rebuild",
        of=(replica,),
        why="it runs, and will not follow its new leader, or keep other records: audit again once that leads",
    )


def _stopped_leaders(facts: RecoveryFacts, followers: Collection[int]) -> dict[int, int]:
    """Brokers that are stopped and lead partitions of the others by the metadata: they start first, or others are elected instead.

    Each with its depth: one that another one follows is deeper, and starts earlier.
    """
    leaders = {
        broker: {led for key in keys for role in facts.replicas[key][:1] if (led := role.leader_id) not in (-1, broker)}
        for broker, keys in facts.partitions_on.items()
    }
    found: dict[int, int] = {}
    below = set(followers)
    for depth in range(1, len(leaders) + 1):
        below = {led for broker in below for led in leaders.get(broker, ()) if facts.is_stopped(led)}
        found |= dict.fromkeys(below, depth)
    return found


def _cut_when_started(facts: RecoveryFacts) -> Iterator[ReplicaKey]:
    """Followers of leaders that there are that truncate as soon as they run, by the corrected files where there are such."""
    for verdict in facts.verdicts:
        replica = (*verdict.key, verdict.follower_id)
        if verdict.verdict in _TRUNCATES and known_cut(verdict) and verdict.key not in facts.leaderless and replica not in facts.settled:
            yield replica
    yield from (replica for replica in facts.cut_once_corrected if replica in facts.healed_by_leader)
    yield from facts.recovering


def _sequence(
    facts: RecoveryFacts,
    order: StartOrder,
    corrected: Mapping[int, Sequence[ReplicaLog]],
    wanted: Collection[int],
    repaired: Collection[int],
    leading: Mapping[int, int],
) -> tuple[list[int], list[int]]:
    """The brokers with a step of their own in order, and those that are started last, together."""
    later = {broker for *_key, broker in facts.healed_by_leader}  # their leaders have the right file when they start

    def place(broker: int) -> tuple[bool, int, int, int]:
        return broker in later, -leading.get(broker, 0), _follows(corrected.get(broker, ())), broker

    elected = [broker for broker in order.brokers if broker in wanted]
    rivals = {rival for one in order.leaders for rival in one.rivals}
    alone = sorted((broker for broker in wanted if (broker in repaired or broker in leading) and broker not in elected), key=place)
    before = [broker for broker in alone if broker not in rivals and broker not in later]
    after = [broker for broker in alone if broker not in before]
    return [*before, *elected, *after], sorted(set(wanted) - {*alone, *elected})


def _follows(logs: Sequence[ReplicaLog]) -> int:
    """In how many more of these partitions a broker follows than leads: leaders get their files first."""
    led = [log.broker_id == log.rejoins_once_corrected[0].leader_id for log in logs if log.rejoins_once_corrected]
    return len(led) - 2 * sum(led)


class _Maker:
    """Makes the steps one after the other, and walks each as it is made."""

    def __init__(
        self,
        facts: RecoveryFacts,
        order: StartOrder,
        corrected: Mapping[int, Sequence[ReplicaLog]],
        torn: Collection[ReplicaKey],
        tools: Tools,
    ) -> None:
        self.facts, self.order, self.corrected, self.tools = facts, order, corrected, tools
        self.torn = {broker: sorted(one for one in torn if one[2] == broker) for broker in {broker for *_key, broker in torn}}
        self.state: State = first_state(facts)
        self.crossed: dict[PartitionKey, int] = {}
        self.aside: dict[int, dict[ReplicaKey, str]] = {}
        self.named: dict[int, dict[ReplicaKey, str]] = {}
        self._files = len({one.choice.candidate_id for one in order.leaders if one.choice.election != ElectionType.CLEAN})

    def on_disk(self, aside: Mapping[ReplicaKey, str], named: Mapping[ReplicaKey, str]) -> None:
        """Note the replicas whose directories are moved away before the starts, each with why, and those that get a topic id."""
        for noted, found in ((self.aside, aside), (self.named, named)):
            for replica, text in sorted(found.items()):
                noted.setdefault(replica[2], {})[replica] = text

    def _work(self, broker: int) -> DiskWork:
        """What is done to the disk of a broker."""
        log_of, logs_of = self.facts.log_of, self.facts.logs_of
        moved = [log for one in self.aside.get(broker, ()) for log in logs_of.get(one, ()) if log.state in ("current", "future")]
        ids = [(log, topic_id) for one, topic_id in self.named.get(broker, {}).items() if (log := log_of(*one)) is not None]
        return DiskWork(broker=broker, corrected=tuple(self.corrected.get(broker, ())), named=tuple(ids), moved=tuple(moved))

    def _walk(self, actions: Sequence[Action], led: Collection[PartitionKey]) -> list[Removal]:
        """Do them; returns what replicas truncate."""
        removals = []
        for action in actions:
            for effect in apply(self.facts, self.state, action):
                if isinstance(effect, Removal):
                    removals.append(effect)
                elif isinstance(effect, Leads) and effect.key not in led:
                    self.crossed[effect.key] = effect.broker
        return removals

    def crossed_refusals(self) -> Iterator[PlanRefusal]:
        """Partitions that a start gives a leader that was not planned, besides those that the order has no place for."""
        known = {key_of(one.partition) for one in self.order.crossed}
        for (topic, partition), broker in sorted(self.crossed.items()):
            if (topic, partition) not in known:
                choice = choice_of(self.facts.leaderless[topic, partition], broker)
                lost = "what that loses is not known" if choice is None or choice.rank is None else f"that {price(choice)}"
                why = f"broker {broker} leads it by itself as soon as it starts, and {lost}"
                yield PlanRefusal(what="choose the leader of", of=((topic, partition),), why=why)

    def one(self, broker: int) -> PlanStep:
        """A broker that leads something, or has files to correct."""
        rows = [one for one in self.order.led_by(broker) if self.state.leaders.get(key_of(one.partition), broker) == broker]
        logs, torn = self.corrected.get(broker, ()), self.torn.get(broker, [])
        aside = self.aside.get(broker, {})
        work = self._work(broker)
        clean = [one for one in rows if one.choice.election == ElectionType.CLEAN]
        unclean = [one for one in rows if one.choice.election != ElectionType.CLEAN]
        corrections: list[Action] = [CorrectFile((log.topic, log.partition, log.broker_id)) for log in logs]
        corrections += [*map(CorrectFile, torn), *map(NameTopic, self.named.get(broker, ())), *map(SetAside, aside)]
        is_down = bool(self.facts.is_stopped(broker))
        rivals = running_rivals(self.facts, {rival for one in rows for rival in one.rivals})
        stopped = [rival for rival in rivals if self.state.running.get(rival)] + ([] if is_down or not corrections else [broker])
        actions: list[Action] = [StopBroker(one) for one in stopped]
        runs = self.state.running.get(broker) is True and not corrections
        actions += corrections if runs else [*corrections, StartBroker(broker)]
        actions += [Elect(key_of(one.partition), broker, is_clean) for of, is_clean in ((clean, True), (unclean, False)) for one in of]
        removals = self._walk(actions, {key_of(one.partition) for one in rows})
        follows = [key for key in self.facts.partitions_on.get(broker, ()) if self.state.leaders.get(key, broker) != broker]
        if follows or not rows:
            actions.append(WaitForIsr((broker,)))
        return PlanStep(
            stage=Stage.START,
            title=self._title(broker, rows, logs, torn, removals, runs=runs),
            actions=tuple(actions),
            reasons=(
                *why_elected(self.facts, rows),
                *self._caution(broker, rows),
                *reasons_of(work, aside),
                *([_WHILE_STOPPED] if stopped else []),
                *_of_torn(torn),
                *_said(self.facts, removals),
                *self._at_once({broker}),
            ),
            commands=tuple(self._commands(broker, rows, unclean, torn, stopped, runs=runs)),
            checks=(*_recovered(broker, torn), *self._checks(broker, rows, is_follower=follows != [] or not rows)),
            undo=_undo(work, rows, runs=runs),
            cannot_undo=_stays(unclean, removals, aside),
            files=(*self._election_files(broker, unclean), *work.files),
        )

    def several(self, brokers: Sequence[int]) -> PlanStep:
        """Brokers that only follow, started last."""
        actions: list[Action] = [StartBroker(broker) for broker in brokers]
        removals = self._walk(actions, ())
        they = ("it truncates", "it holds") if len(brokers) == 1 else ("they truncate", "they hold")
        cut = {removal.replica[2] for removal in removals}
        who = they[0] if cut <= {*brokers} else f"{brokers_shown(cut)} truncate{'s' * (len(cut) == 1)}"
        lost = f"{_records(self.facts, removals)}, which step 1 copies" if removals else f"nothing that only {they[1]}"
        what = f"{who} {lost}"
        return PlanStep(
            stage=Stage.START,
            title=f"Start {brokers_shown(brokers)}: {what}",
            actions=(*actions, WaitForIsr(tuple(brokers))),
            reasons=(
                "Only when the steps above are done: the leaders have to be there, and the directories to be copied.",
                *_said(self.facts, removals),
                *self._at_once(brokers),
            ),
            commands=tuple(f"# start broker {broker} on its host, if it does not run" for broker in brokers),
            checks=(Check(self.tools.in_sync(brokers, self._stuck(brokers)), Shows.IN_SYNC),),
            undo=f"Stop {brokers_shown(brokers)}{': that brings back nothing that was truncated' if removals else ''}.",
            cannot_undo=_stays((), removals),
        )

    def _title(
        self,
        broker: int,
        rows: Sequence[PlannedLeader],
        logs: Sequence[ReplicaLog],
        torn: Sequence[ReplicaKey],
        removals: Sequence[Removal],
        *,
        runs: bool,
    ) -> str:
        does = []
        if logs:
            does.append(f"corrects {count(len(logs), NAME)}")
        if named := self.named.get(broker):
            does.append(f"writes {count(len(named), f'{PARTITION_METADATA} file')}")
        if aside := self.aside.get(broker):
            them = "it" if len(aside) == 1 else "them"
            does.append(f"{count(len(aside), 'replica directory', 'replica directories')} moved away before, it fetches {them} again")
        if torn:
            does.append(f"recovers {count(len(torn), 'log')} with a torn end")
        if rows:
            unclean = sum(one.choice.election != ElectionType.CLEAN for one in rows)
            how = "cleanly" if not unclean else "by an unclean election" if unclean == len(rows) else f"{unclean} by an unclean election"
            does.append(f"leads {count(len(rows), 'partition')} ({how}); {total_price(self.facts, rows)}")
        elif led := self._led_again(broker):
            does.append(f"leads {count(led, 'partition')}, as before")
        own = [one for one in removals if one.replica[2] == broker]
        if own:
            does.append(f"truncates {_records(self.facts, own)}, copied in step 1")
        start = (
            "Elect" if runs and rows else "Start" if self.facts.is_stopped(broker) or not (logs or torn or named or aside) else "Restart"
        )
        return f"{start} broker {broker}: {'; '.join(does) or 'it follows its leaders'}"

    def _led_again(self, broker: int) -> int:
        """How many partitions a broker leads by the metadata, which is stopped."""
        keys = self.facts.partitions_on.get(broker, ()) if self.facts.is_stopped(broker) else ()
        return sum(self.facts.replicas[key][0].leader_id == broker for key in keys)

    def _caution(self, broker: int, rows: Sequence[PlannedLeader]) -> Iterator[str]:
        if any(one.choice.election != ElectionType.CLEAN for one in rows) and not self.tools.elects:
            yield (
                "The first script allows unclean elections of these topics, the second forbids them by name. A topic that had no setting "
                "of its own (`kafka-configs.sh --describe` before) can lose it again afterwards: `--delete-config`."
            )
        crashed = [one for one in rows if one.choice.in_elr and not one.choice.in_isr and one.choice.stopped_cleanly is False]
        if crashed:
            yield (
                f"Broker {broker} crashed, or recovers its logs: the controller takes it off the ELR when it registers. So it is elected "
                "uncleanly, for what it holds; where the controller does that by itself, the command says that it is not needed."
            )

    def _commands(
        self,
        broker: int,
        rows: Sequence[PlannedLeader],
        unclean: Sequence[PlannedLeader],
        torn: Sequence[ReplicaKey],
        stopped: Sequence[int],
        *,
        runs: bool,
    ) -> Iterator[str]:
        work = self._work(broker)
        if work and broker in stopped:
            yield f"# on its host, in a copy of this folder, while it runs: {work.line} check"
        for rival in stopped:
            why = "it overwrites the files while it runs" if rival == broker else "else it leads instead; a step below starts it again"
            yield f"# stop broker {rival}: {why}"
        if work.moved and (self.facts.anybody_runs or any(self.state.running.values())):
            named = some([visible(f"{topic}-{partition}") for topic, partition, _broker in self.aside[broker]])
            yield f"{self.tools.topics()}   # {named}: `Leader` is not {broker}, nor is {broker} in `Isr` or `Elr`: else stop here"
        if work:
            yield f"# on its host, in a copy of this folder: {work.line}"
        if torn:
            named = some([visible(f"{topic}-{partition}") for topic, partition, _broker in torn])
            yield f"# on the host of broker {broker}, in each log directory that holds {named}: rm {_MARKER}"
        later = sorted({rival for one in rows for rival in one.rivals} - {*stopped})
        if later:
            them = ("it leads", "it") if len(later) == 1 else ("they lead", "them")
            yield f"# {brokers_shown(later)} must not run yet, else {them[0]} instead: stop {them[1]}"
        names = self._names(broker)
        if unclean and not self.tools.elects:
            yield self.tools.elect(names[0])
        start = f"broker {broker} runs, and this" if runs else f"start broker {broker} on its host, unless it runs, and wait until this"
        yield f"# {start} lists it:"
        yield f"{self.tools.brokers()} | grep 'id: {broker} '"
        if unclean:
            yield self.tools.elect(names[-1])

    def _names(self, broker: int) -> tuple[str, ...]:
        if not self.tools.elects:
            return f"unclean-allow-broker-{broker}.sh", f"unclean-forbid-broker-{broker}.sh"
        return ("elect-unclean.json" if self._files == 1 else f"elect-unclean-broker-{broker}.json",)

    def _election_files(self, broker: int, unclean: Sequence[PlannedLeader]) -> tuple[PlanFile, ...]:
        if not unclean:
            return ()
        names = self._names(broker)
        if self.tools.elects:
            return (PlanFile(name=names[0], content=election_json(key_of(one.partition) for one in unclean)),)
        topics = sorted({one.partition.topic for one in unclean})
        return tuple(
            PlanFile(name=name, content=allow_unclean(topics, allow=allow), executable=True)
            for name, allow in zip(names, (True, False), strict=True)
        )

    def _checks(self, broker: int, rows: Sequence[PlannedLeader], *, is_follower: bool) -> Iterator[Check]:
        if rows:
            yield Check(f"{self.tools.topics()}   # these partitions have `Leader: {broker}`", Shows.LED)
            yield Check(f"{self.tools.topics('--unavailable-partitions')}   # none of them is listed", Shows.LED)
        if is_follower:
            yield Check(self.tools.in_sync({broker}, self._stuck({broker})), Shows.IN_SYNC)

    def _stuck(self, brokers: Collection[int]) -> list[str]:
        """The partitions in which these brokers run and do not follow, or keep other records."""
        found = sorted(replica for replica in self.state.stuck if replica[2] in brokers)
        return [partition_shown(*replica[:2]) for replica in found[:MOST]]

    def _at_once(self, brokers: Collection[int]) -> Iterator[str]:
        if stuck := self._stuck(brokers):
            yield (
                f"Go on at once to the step that rebuilds {', '.join(stuck)}: until then the replica may hold other records than the "
                "leader, and get into the ISR all the same. With auto.leader.rebalance.enable (the default) a preferred replica then "
                "leads within minutes: set it to false before, or move the leadership back."
            )


def _recovered(broker: int, torn: Sequence[ReplicaKey]) -> Iterator[Check]:
    """What is to be seen of logs that ended in half a batch, once log recovery has truncated them (DumpLogSegments)."""
    if torn:
        named = some([visible(f"{topic}-{partition}") for topic, partition, _broker in torn])
        of = f"SEGMENT is the newest .log of {named} on broker {broker}: it does not print `invalid bytes`"
        yield Check(f"# kafka-dump-log.sh --files SEGMENT   # {of}", Shows.RECOVERED)


def _undo(work: DiskWork, rows: Sequence[PlannedLeader], *, runs: bool) -> str:
    if work:
        return (
            f"`{work.line} undo`, as long as the broker was not started: after that the script refuses, for the broker has gone on with "
            "what it found."
        )
    if runs:
        return "Not needed: no broker is started or stopped. Who leads stays the leader."
    offline = ": its partitions are offline again, as before. Nothing was truncated unless other replicas ran" if rows else ""
    return f"Stop broker {work.broker}{offline}."


def _apart(facts: RecoveryFacts, removals: Sequence[Removal]) -> list[Removal]:
    """One of each partition where its replica holds everything that the other ones hold, else all of them."""
    whole = {
        (one.topic, one.partition): one.candidate_id
        for one in facts.candidates
        if one.rank is not None and one.lost_offsets == 0 and not one.unread_replicas
        if any(removal.replica == (one.topic, one.partition, one.candidate_id) for removal in removals)
    }
    return [one for one in removals if whole.get(one.replica[:2], one.replica[2]) == one.replica[2]]


def _records(facts: RecoveryFacts, removals: Sequence[Removal]) -> str:
    removals = _apart(facts, removals)
    known = sum(one.cut.removed_records or 0 for one in removals)
    committed = sum(one.cut.removed_committed or 0 for one in removals)
    if all(one.cut.removed_records is None for one in removals):
        return "an unknown number of records"
    least = "at least " if any(one.cut.removed_records is None for one in removals) else ""
    split = sum((one.cut.lost_by_transaction or RecordsByTransaction() for one in removals), RecordsByTransaction())
    if split.total == known and not split.is_plain:  # else the leaders hold a part
        return f"{least}{lost_text(known, committed, split)}"
    each = ", counted on each replica" if len({one.replica[:2] for one in removals}) < len(removals) else ""
    return f"{least}{count(known, 'record')}{f', {committed} of them committed' if committed else ''}{each}"


def _said(facts: RecoveryFacts, removals: Sequence[Removal]) -> Iterator[str]:
    """A sentence for each replica that truncates, the worst first."""
    worst = sorted(removals, key=lambda one: (-(one.cut.removed_committed or 0), -(one.cut.removed_records or 0), one.replica))
    for one in worst[:MOST]:
        topic, partition, broker = one.replica
        cut, verdict = one.cut, facts.verdict_of.get(one.replica)
        does = "truncates" if cut.truncation_offset is None else f"truncates to {cut.truncation_offset}"
        if cut.restart_offset is not None:
            does = f"empties its log and starts at {cut.restart_offset}"
        removed = "an unknown number of records" if cut.removed_records is None else count(cut.removed_records, "record")
        lost = None if verdict is None or (topic, partition) in facts.leaderless else verdict.lost_records
        if lost is not None and lost != cut.removed_records and cut.removed_records is not None:
            removed = f"{removed}, {lost} of which the leader does not hold"
        removed += f", {cut.removed_committed} of them committed" if cut.removed_committed else ""
        split = cut.lost_by_transaction
        if split is not None and split.total == cut.removed_records and not split.is_plain:  # else the leader holds a part
            removed = lost_text(split.total, cut.removed_committed, split)
        yield f"{partition_shown(topic, partition)}: broker {broker} {does}, which removes {removed}."
    if len(removals) > MOST:
        yield f"and {len(removals) - MOST} more replicas."


def _stays(unclean: Sequence[PlannedLeader], removals: Sequence[Removal], aside: Collection[ReplicaKey] = ()) -> str:
    said = []
    if unclean:
        said.append("an election: until other replicas start nothing is truncated, and their directories are as they were")
    if removals:
        said.append("what is truncated: only the copies still hold it")
    if aside:
        said.append("once the broker was started: what the moved directories held is in them alone, and in the copies")
    return "; ".join(said)


def _of_torn(torn: Sequence[ReplicaKey]) -> Iterator[str]:
    if torn:
        named = ", ".join(partition_shown(*replica[:2]) for replica in torn[:MOST])
        more = f" and {len(torn) - MOST} more" if len(torn) > MOST else ""
        yield (
            f"The newest segment of {named}{more} ends in half a batch after a clean stop: what the broker appended behind it, nobody "
            f"could read. Without the file {_MARKER} it recovers its logs as after a crash, and removes the half batch; whole records stay."
        )


def _all_stopped(facts: RecoveryFacts) -> Iterator[PlanStep]:
    brokers = sorted({role.broker_id for key in facts.leaderless for role in facts.replicas.get(key, ())} or _candidates(facts))
    tools = Tools.of(facts.kafka_version, facts.protocol)
    keys = len(facts.leaderless)
    yield PlanStep(
        stage=Stage.START,
        title="Start the cluster",
        actions=tuple(StartBroker(broker) for broker in brokers),
        reasons=(
            f"All brokers were stopped cleanly; only because of that {count(keys, 'partition has', 'partitions have')} no leader. "
            "Starting them loses nothing.",
        ),
        commands=("# start every broker, each on its host",),
        checks=(Check(f"{tools.topics('--unavailable-partitions')}   # prints nothing", Shows.RUNS),),
        undo="Stop the brokers again.",
    )


def _truncates_at_once(facts: RecoveryFacts) -> bool:
    """Whether some replica truncates what its leader does not hold once all are started."""
    state = first_state(facts)
    effects = [effect for step in _all_stopped(facts) for action in step.actions for effect in apply(facts, state, action)]
    return any(isinstance(effect, Removal) for effect in effects)


def _candidates(facts: RecoveryFacts) -> set[int]:
    return {choice.candidate_id for one in facts.offline for choice in one.candidates or ()}


# --- what it rests on --------------------------------------------------------------------------------------------------------------------


_CONTROLLERS = {  # by whether KRaft is ready for production
    False: "ZooKeeper runs: without it no broker registers",
    True: "a majority of the controllers runs, or ZooKeeper does, before the first broker is started: without them none registers. A node "
    "that is both (process.roles=broker,controller) is a broker as soon as it runs, so that the order of this plan cannot be kept where "
    "such nodes make the majority",
}


def _presumptions(facts: RecoveryFacts, order: StartOrder, tools: Tools) -> Iterator[Presumption]:
    for broker in sorted(facts.gone):
        yield Presumption(
            what=f"broker {broker} is gone for good (--gone); nothing with its id runs before the step that says so",
            holds=None,
            how_to_check=f"{tools.brokers()} | grep 'id: {broker} '   # prints nothing",
        )
    if not facts.offline:
        return
    choices = [choice for one in facts.offline for choice in one.candidates or ()]
    down = sorted({choice.candidate_id for choice in choices if choice.broker_up is False})
    unknown = sorted({choice.candidate_id for choice in choices if choice.broker_up is None})
    if down:
        said = f"brokers {', '.join(map(str, down))} are stopped, and nothing was written to their directories since they were copied"
        yield Presumption(what=said, holds=True, how_to_check=tools.none_runs(down, any_runs=facts.anybody_runs))
    if unknown:
        said = f"the input does not show whether brokers {', '.join(map(str, unknown))} run"
        yield Presumption(what=said, holds=None, how_to_check=f"{tools.brokers()}   # lists those that run")
    if not facts.anybody_runs:
        yield Presumption(what=_CONTROLLERS[tools.formats], holds=None, how_to_check=tools.controllers())
    if facts.anybody_runs:
        listed = f"{tools.topics('--unavailable-partitions')}   # lists them"
        yield Presumption(what="the partitions still have no leader", holds=None, how_to_check=listed)
    if any(one.choice.election != ElectionType.CLEAN for one in order.leaders):
        is_off, first = _unclean_is_off(facts, order), "the controller elects whichever replica starts first"
        said = f"unclean.leader.election.enable is false; else {first}"
        if is_off is False:
            said = f"unclean.leader.election.enable is true, so {first}: no broker starts before its step"
        yield Presumption(what=said, holds=None if is_off is None else True, how_to_check=tools.configs())


def _unclean_is_off(facts: RecoveryFacts, order: StartOrder) -> bool | None:
    """Whether no controller elects a replica outside of the ISR unasked, in the partitions that the plan elects leaders of."""
    keys = [key_of(one.partition) for one in order.leaders if one.choice.election != ElectionType.CLEAN]
    said = {role.unclean_leader_election for key in keys for role in facts.replicas.get(key, ())}
    return False if True in said else None if None in said or not said else True
