"""What holds in every plan, checked over a walk through its steps before it is written: a plan that breaks one is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica_audit.errors import AuditError
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.discharge import Done, still_open, unknown_brokers
from replica_audit.recovery.facts import RecoveryFacts, ReplicaKey, lacks_keys
from replica_audit.recovery.questions import unknown_replicas
from replica_audit.recovery.rebuilds import may_lead_empty
from replica_audit.recovery.start_order import price_of
from replica_audit.recovery.state import Effect, Leads, Removal, State, apply, choice_of, first_state, shown_by
from replica_audit.recovery.steps import (
    Action,
    Check,
    Copy,
    CorrectFile,
    Elect,
    EndTransaction,
    NameTopic,
    Plan,
    PlanStep,
    PutBack,
    ResetGroup,
    SetAside,
    StartBroker,
    StopBroker,
    TakeOut,
)

Broken = tuple[int, str]  # a rule, and how it is broken
RULES = {
    1: "nothing is removed that exists once, unless it was copied before",
    2: "no other leader within reach loses less",
    3: "nothing is done on a guess",
    4: "a rebuild deletes only what the leader is proven to hold, or what was copied",
    5: "each broker is started once, after everything that must come before",
    6: "every check can fail, and every command is one line",
    7: "every step says what it cannot undo, and every group and transaction is followed to its end",
    8: "a copy of evidence is never edited",
    9: "a broker is started only once that was done which its start makes necessary",
}
_FINAL = (Elect, TakeOut, EndTransaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a plan breaks, the step where it does (0: no single one), and what is wrong there."""

    rule: int
    number: int
    what: str


class PlanDefectError(AuditError):
    """A plan that breaks one of its own rules: it is not written."""

    def __init__(self, plan: Plan, found: Violation) -> None:
        at = f"step {found.number} ({plan.steps[found.number - 1].title})" if found.number else "the plan"
        super().__init__(
            f"no plan for cluster {plan.cluster_id}: it would break the rule that {RULES[found.rule]} (rule {found.rule}). In {at}: "
            f"{found.what}.",
            "This is a defect of this program; please report it. Until then start no broker that is stopped, elect nobody and delete "
            "nothing; copy the log directories of the stopped brokers; `explain --partition` shows what is known of a partition.",
        )


def refuse_defects(facts: RecoveryFacts, plan: Plan) -> Plan:
    """The plan itself.

    Raises:
        PlanDefectError: it breaks a rule.
    """
    found = next(violations(facts, plan), None)
    if found is not None:
        raise PlanDefectError(plan, found)
    return plan


def violations(facts: RecoveryFacts, plan: Plan) -> Iterator[Violation]:
    """Every rule that the plan breaks, in the order of the walk."""
    state, unknown = first_state(facts), unknown_replicas(facts)
    starts: dict[int, int] = {}
    for number, step in enumerate(plan.steps, 1):
        already = [check for check in step.checks if shown_by(check.shows, step, state)]
        is_final = False
        for action in step.actions:
            for rule, what in (
                *_guesses(facts, state, action, unknown),
                *_rebuilds(facts, state, action),
                *_starts(state, action, starts, number),
                *_ended(state, action),
                *_outcomes(facts, plan, state, action),
            ):
                yield Violation(rule=rule, number=number, what=what)
            for effect in apply(facts, state, action):
                is_final = is_final or not isinstance(effect, Leads)
                for rule, what in (*_removes(effect), *_loses_most(facts, plan, effect)):
                    yield Violation(rule=rule, number=number, what=what)
        failing = [check for check in step.checks if not shown_by(check.shows, step, state)]
        for rule, what in (*_checks(step, already, failing), *_says_what_stays(step, is_final=is_final), *_edits(facts, step)):
            yield Violation(rule=rule, number=number, what=what)
    for what in _ends(facts, plan, state):
        yield Violation(rule=7, number=0, what=what)


def _shown(replica: ReplicaKey) -> str:
    topic, partition, broker = replica
    return f"{topic}-{partition} on broker {broker}"


def _ended(state: State, action: Action) -> Iterator[Broken]:
    """A transaction whose producer takes it for committed is aborted once its records are in a copy."""
    if isinstance(action, EndTransaction) and action.saved_from is not None and (*action.key, action.saved_from) not in state.copied:
        replica = (*action.key, action.saved_from)
        yield 1, f"a transaction of {_shown(replica)} is aborted that may be committed, and was not copied"


def _removes(effect: Effect) -> Iterator[Broken]:
    if isinstance(effect, Removal) and not effect.was_copied and not effect.was_asked:
        records = "an unknown number of" if effect.cut.removed_records is None else effect.cut.removed_records
        yield 1, f"{_shown(effect.replica)} truncates {records} records that leader {effect.leader_id} does not hold, and was not copied"


def _loses_most(facts: RecoveryFacts, plan: Plan, effect: Effect) -> Iterator[Broken]:
    one = facts.leaderless.get(effect.key) if isinstance(effect, Leads) else None
    if one is None or not isinstance(effect, Leads) or effect.key in plan.crossed or one.cluster_stopped:
        return
    chosen = choice_of(one, effect.broker)
    known = [choice for choice in one.candidates or () if choice.rank is not None and not choice.followers_diverged]
    begins = f"broker {effect.broker} begins to lead {effect.key[0]}-{effect.key[1]}"
    if chosen is None or chosen.rank is None:
        yield 2, f"{begins}, and what that loses is not known"
    elif known and price_of(chosen) > min(map(price_of, known)):
        yield 2, f"{begins}, and broker {min(known, key=price_of).candidate_id} would lose less"


def _guesses(facts: RecoveryFacts, state: State, action: Action, unknown: frozenset[ReplicaKey]) -> Iterator[Broken]:
    touched: set[ReplicaKey] = set()
    match action:
        case NameTopic(replica):
            touched = {replica} - facts.topic_ids.keys()
        case StartBroker(broker) | StopBroker(broker):
            touched = {replica for replica in unknown if replica[2] == broker}
        case CorrectFile(replica) | SetAside(replica) | TakeOut(replica) | PutBack(replica):
            touched = {replica, (*replica[:2], state.leaders.get(replica[:2], -1))} & unknown
        case Elect(key, broker, is_clean):
            touched = {replica for replica in unknown if (replica[:2] == key and not is_clean) or replica[2] == broker}
        case ResetGroup(_group, key, _offset):
            touched = {replica for replica in unknown if replica[:2] == key}
    for replica in sorted(touched):
        yield 3, f"of {_shown(replica)} something that decides is not known"


def _rebuilds(facts: RecoveryFacts, state: State, action: Action) -> Iterator[Broken]:
    if not isinstance(action, TakeOut | SetAside):
        return
    replica = action.replica
    key, broker = replica[:2], replica[2]
    verdict, roles = facts.compared(replica), facts.replicas.get(key, [])
    in_sync = state.isr.get(key, set()) - {broker}
    minimum = next((role.min_insync_replicas for role in roles if role.min_insync_replicas is not None), None)
    is_held = (
        verdict is not None and verdict.lost_offsets == 0 and verdict.verdict not in (Verdict.LOG_MATCHING_VIOLATION, Verdict.UNREADABLE)
    )
    if replica not in state.copied and not is_held:
        yield 4, f"{_shown(replica)} was not copied, and its leader is not proven to hold everything that it holds"
    if state.leaders.get(key, -1) not in in_sync:
        yield 4, f"{_shown(replica)} has no leader that is in sync"
    if isinstance(action, SetAside):
        if may_lead_empty(roles, broker) and not state.running.get(state.leaders.get(key, -1)):
            yield 4, f"{_shown(replica)} is moved away, and may be elected with an empty log: its leader does not run"
    elif not state.running.get(broker):
        yield 4, f"{_shown(replica)} is to be deleted by a broker that does not run"
    elif len(in_sync) < (2 if minimum is None else minimum):
        yield 4, f"without {_shown(replica)} only {len(in_sync)} replicas are in sync, fewer than min.insync.replicas"
    if verdict is not None and verdict.compacted and verdict.differing_keys is None:
        yield 4, f"{_shown(replica)} is of a compacted partition whose records were not compared"


def _starts(state: State, action: Action, starts: dict[int, int], number: int) -> Iterator[Broken]:
    match action:
        case StartBroker(broker):
            if broker in starts:
                yield 5, f"broker {broker} is started again, after step {starts[broker]}"
            starts[broker] = number
        case CorrectFile(replica) | NameTopic(replica) | SetAside(replica):
            does = "moved away" if isinstance(action, SetAside) else "written"
            if replica[2] in starts:
                yield 5, f"a file of {_shown(replica)} is {does} after its broker was started"
            if state.running.get(replica[2]) is not False:
                yield 5, f"a file of {_shown(replica)} is {does} while its broker may run"
        case Copy(replicas):
            late = [replica for replica in replicas if replica[2] in starts]
            if late:
                yield 5, f"{_shown(late[0])} is copied after its broker was started"
        case Elect(_key, broker, _is_clean):
            if not state.running.get(broker):
                yield 5, f"broker {broker} is elected before it was started"


def _outcomes(facts: RecoveryFacts, plan: Plan, state: State, action: Action) -> Iterator[Broken]:
    """What the start of a broker makes necessary and nothing before it has done."""
    if not isinstance(action, StartBroker) or action.empty or state.running.get(action.broker):
        return
    for reason in unknown_brokers(facts).get(action.broker, ()):
        yield 9, f"broker {action.broker} is started ({reason})"
    planned = [one for step in plan.steps for one in step.actions]
    taken = {one.replica for one in planned if isinstance(one, TakeOut)}
    # what does not run has its file when it starts: rule 5
    corrected = {one.replica for one in planned if isinstance(one, CorrectFile) and state.running.get(one.replica[2]) is False}
    rebuilt = state.absent | (taken if facts.is_stopped(action.broker) is False else set())
    done = Done(copied=state.copied, led={*state.leaders, *plan.crossed}, corrected=state.corrected | corrected, rebuilt=rebuilt)
    for start in facts.starts:
        replica = (start.topic, start.partition, start.broker_id)
        if start.broker_id == action.broker:
            for reason in still_open(facts, start, done):
                yield 9, f"broker {action.broker} is started, and {_shown(replica)} is {start.outcome} ({reason}) still"


def _checks(step: PlanStep, already: Sequence[Check], failing: Sequence[Check]) -> Iterator[Broken]:
    lines = [*step.commands, *(check.command for check in step.checks)]
    if any("\n" in line or not line.strip() for line in lines):
        yield 6, "a command is more than one line, or none"
    if not step.checks:
        yield 6, "nothing shows whether it worked"
    for check in already:
        yield 6, f"its check ({check.shows.name}) shows the same if it did not work"
    for check in failing:
        yield 6, f"its check ({check.shows.name}) fails although it worked"


def _says_what_stays(step: PlanStep, *, is_final: bool) -> Iterator[Broken]:
    is_final = is_final or any(isinstance(action, _FINAL) and not getattr(action, "is_clean", False) for action in step.actions)
    if not step.undo or (is_final and not step.cannot_undo):
        yield 7, "it does not say how it is undone, or what of it cannot be"


def _ends(facts: RecoveryFacts, plan: Plan, state: State) -> Iterator[str]:
    """Groups, transactions and started replicas of which the plan says nothing."""
    actions = [action for step in plan.steps for action in step.actions]
    refused = {place[:2] for one in plan.refusals for place in one.of}
    asked = {replica[:2] for replica in state.asked}
    for group in facts.groups:
        key = (group.topic, group.partition)
        if (group.group_id, key) not in state.reset and key not in refused | asked:
            yield f"it does not say what becomes of group {group.group_id}"
    for one in facts.transactions:
        key = (one.topic, one.partition)
        if (key, one.producer_id, one.first_offset) not in state.ended and key not in refused | asked:
            yield f"it does not say how the transaction of producer {one.producer_id} ends"
    started = {action.broker for action in actions if isinstance(action, StartBroker)}
    taken = {action.replica for action in actions if isinstance(action, TakeOut | SetAside)}
    short = {(*one.key, one.follower_id) for one in facts.verdicts if lacks_keys(one) and one.key not in facts.leaderless} - facts.settled
    for replicas, does in ((state.stuck, "does not follow its leader"), (short, "lacks keys that its leader has")):
        for replica in sorted(replicas - taken):
            if replica[2] in started and replica[:2] not in refused:
                yield f"{_shown(replica)} {does} at the end, and nothing is said of it"


def _edits(facts: RecoveryFacts, step: PlanStep) -> Iterator[Broken]:
    audited = {log.log_dir for log in facts.logs if log.log_dir}
    for file in step.files:
        if file.executable and any(path in file.content for path in audited):
            yield 8, f"{file.name} names the files that were audited, which may be the only copy"
