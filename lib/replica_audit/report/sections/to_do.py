"""What the plan does about one partition, step by step, and what it refuses to do: the commands are in PLAN.md alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.errors import visible
from replica_audit.recovery.facts import PartitionKey
from replica_audit.recovery.gone import brokers_shown
from replica_audit.recovery.steps import (
    Action,
    AskForInput,
    Copy,
    CorrectFile,
    Elect,
    ElectPreferred,
    EndTransaction,
    KeepCopy,
    NameTopic,
    PlanRefusal,
    PutBack,
    ResetGroup,
    SetAside,
    StartBroker,
    StopBroker,
    TakeOut,
    WaitForIsr,
)
from replica_audit.report.document import Block, Heading, Sentence
from replica_audit.report.facts.explanation import Explained

_MOST = 8  # actions of one step
_WHERE = "The commands, checks and reasons of these steps are in PLAN.md, which `plan --output DIR`, or `triage` with --plan DIR, writes."


def to_do_blocks(explained: Explained) -> Iterator[Block]:
    """The steps of the plan that are about the partition, by their numbers, and what the plan refuses; nothing where there is no plan."""
    to_do, facts = explained.to_do, explained.partition
    if to_do is None:
        return
    yield Heading("What to do")
    if to_do.no_plan:
        yield Sentence(to_do.no_plan)
        return
    key = (facts.topic, facts.partition)
    for number, actions in to_do.steps:
        yield Sentence("; ".join(_in_words(actions, key)) + ".", label=f"step {number}  ")
    for one in to_do.refusals:
        yield Sentence(f"{_refused(one)}: {one.why}.", label="not done: ")
    if to_do.steps:
        yield Sentence(_WHERE)
    elif not to_do.refusals:
        yield Sentence("Nothing: no step of the plan is about this partition.")


def _refused(one: PlanRefusal) -> str:
    """What is refused; of the partition that is explained only the brokers have to be named."""
    brokers = [place[2] for place in one.of if len(place) == 3]
    return f"{one.what} {brokers_shown(brokers)}" if brokers else f"{one.what} this partition"


def _in_words(actions: Sequence[Action], key: PartitionKey) -> Iterator[str]:
    first, *others = (_said(action, key) for action in actions[:_MOST])
    yield first[:1].upper() + first[1:]
    yield from others
    if len(actions) > _MOST:
        yield f"and {len(actions) - _MOST} more like these"


def _said(action: Action, key: PartitionKey) -> str:
    match action:
        case Copy():
            of = _brokers(action, key)
            return f"copy the director{'y' if len(of) == 1 else 'ies'} of {brokers_shown(of)} to a safe place"
        case KeepCopy():
            kept = brokers_shown(_brokers(action, key))
            return f"keep the audited copy of {kept}, which alone has what is gone there, and save its records from it"
        case AskForInput():
            return f"give {action.wanted}, and plan again: of {brokers_shown(_brokers(action, key))}, {action.why}"
        case ResetGroup(group, _key, offset):
            return f"set group {visible(group)} to offset {offset}"
        case EndTransaction(_key, producer_id, first_offset, saved_from):
            saved = "" if saved_from is None else f", once its records are saved from the copy of broker {saved_from}"
            return f"abort the transaction of producer {producer_id} from offset {first_offset}{saved}"
        case Elect(_key, broker, is_clean):
            return f"broker {broker} is then elected" if is_clean else f"elect broker {broker}, uncleanly"
        case ElectPreferred():
            return "give the leadership back to the preferred replica"
        case WaitForIsr(brokers):
            return f"wait until {brokers_shown(brokers)} {'is' if len(brokers) == 1 else 'are'} in the ISR"
        case _:
            return _said_of_broker(action)


def _said_of_broker(action: CorrectFile | NameTopic | StopBroker | StartBroker | SetAside | TakeOut | PutBack) -> str:
    match action:
        case StopBroker(broker):
            return f"stop broker {broker}"
        case StartBroker(broker, empty):
            return f"start a new, empty broker {broker}" if empty else f"start broker {broker}"
        case CorrectFile(replica):
            return f"correct a file of broker {replica[2]} while it does not run"
        case NameTopic(replica):
            return f"write the partition.metadata that broker {replica[2]} lacks"
        case SetAside(replica):
            return f"move the directory of broker {replica[2]} out of its log directory: it fetches the whole log from the leader"
        case TakeOut(replica):
            return f"take broker {replica[2]} out of the assignment, which deletes its replica"
        case PutBack(replica):
            return f"put broker {replica[2]} back: it fetches the whole log from the leader"


def _brokers(action: Copy | KeepCopy | AskForInput, key: PartitionKey) -> list[int]:
    """The brokers whose replicas of the partition an action is about."""
    return sorted({replica[2] for replica in action.replicas if replica[:2] == key})
