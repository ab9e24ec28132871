"""What a plan is made of: steps in words, each with the typed actions that a walk follows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto

from replica_audit.recovery.facts import PartitionKey, ReplicaKey


class Stage(IntEnum):
    """The order of steps: first what cannot lose anything, last what ends something for good."""

    COPY = 1
    ASK = 2
    START = 3
    ABORT = 4
    REBUILD = 5
    GROUPS = 6
    PREFERRED = 7


class GroupPolicy(StrEnum):
    """What becomes of a group behind a truncation: it reads again what it may have read in another version, or skips that."""

    RE_READ = "re-read"
    SKIP = "skip"


# --- actions -----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy directories of replicas to a safe place."""

    replicas: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class KeepCopy:
    """Keep the audited copies of replicas, whose brokers no longer have what is in them."""

    replicas: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForInput:
    """Stop here for these replicas until `wanted` was given and planned again. `why` is what is not known without it.

    `brokers`: those of which it is asked as a whole. `is_of_files`: it is about what lies in the replicas' directories, which are kept
    meanwhile, and not about who leads or how they are compared.
    """

    replicas: tuple[ReplicaKey, ...]
    wanted: str
    why: str
    brokers: tuple[int, ...] = ()
    is_of_files: bool = True


@dataclass(frozen=True, slots=True)
class CorrectFile:
    """Put a corrected leader-epoch-checkpoint in place, or make the log recover; its broker must not run."""

    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class NameTopic:
    """Give a replica the partition.metadata that it lacks; its broker must not run."""

    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class StopBroker:
    """Stop a broker, cleanly."""

    broker: int


@dataclass(frozen=True, slots=True)
class StartBroker:
    """Start a broker. `empty`: a new one with the id of one that is gone."""

    broker: int
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Elect:
    """Make a broker that runs the leader; `is_clean`: the controller does it by itself."""

    key: PartitionKey
    broker: int
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class WaitForIsr:
    """Wait until replicas that can follow are in the ISR."""

    brokers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetAside:
    """Move the directory of a replica out of its log directory; its broker must not run. Started, it fetches all of it from the leader."""

    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class TakeOut:
    """Take a replica out of the assignment: its broker deletes it."""

    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class PutBack:
    """Assign a replica to a broker that has none: it fetches the whole log from the leader."""

    replica: ReplicaKey


@dataclass(frozen=True, slots=True)
class ResetGroup:
    """Set the position of a consumer group."""

    group: str
    key: PartitionKey
    offset: int


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Abort a transaction that nobody will end; `saved_from`: of whose copy its records are sent again, None: they need not be."""

    key: PartitionKey
    producer_id: int
    first_offset: int
    saved_from: int | None = None


@dataclass(frozen=True, slots=True)
class ElectPreferred:
    """Give the leadership back to the preferred replica."""

    key: PartitionKey


Action = (
    Copy
    | KeepCopy
    | AskForInput
    | CorrectFile
    | NameTopic
    | StopBroker
    | StartBroker
    | Elect
    | WaitForIsr
    | SetAside
    | TakeOut
    | PutBack
    | ResetGroup
    | EndTransaction
    | ElectPreferred
)


def partitions_of(action: Action) -> frozenset[PartitionKey]:
    """The partitions that an action names; none where it is about brokers."""
    match action:
        case Copy(replicas) | KeepCopy(replicas):
            return frozenset(replica[:2] for replica in replicas)
        case AskForInput():
            return frozenset(replica[:2] for replica in action.replicas)
        case CorrectFile(replica) | NameTopic(replica) | SetAside(replica) | TakeOut(replica) | PutBack(replica):
            return frozenset({replica[:2]})
        case Elect(key) | ElectPreferred(key) | EndTransaction(key):
            return frozenset({key})
        case ResetGroup():
            return frozenset({action.key})
        case StopBroker() | StartBroker() | WaitForIsr():
            return frozenset()


# --- steps -------------------------------------------------------------------------------------------------------------------------------


class Shows(Enum):
    """What the command of a check shows."""

    COPIED = auto()
    ANSWERED = auto()
    NAMED = auto()
    RUNS = auto()
    LED = auto()
    IN_SYNC = auto()
    RECOVERED = auto()
    TAKEN_OUT = auto()
    ENDED = auto()
    RESET = auto()
    PREFERRED = auto()


@dataclass(frozen=True, slots=True)
class Check:
    """A line to type and what it then prints. `shows` is false before the step and true after it: the check can fail."""

    command: str
    shows: Shows


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A file of the plan. `name` is relative to its folder, with `/` between folders; no name of a topic or group is in it unencoded."""

    name: str
    content: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step: what it does, why, what to type, how to see that it worked, how to undo it and what of it cannot be undone.

    Texts are sentences of Markdown; `commands` and `checks` are lines of a shell. `cannot_undo` is empty where everything can be.
    """

    stage: Stage
    title: str
    actions: tuple[Action, ...]
    reasons: tuple[str, ...]
    commands: tuple[str, ...]
    checks: tuple[Check, ...]
    undo: str
    cannot_undo: str = ""
    files: tuple[PlanFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefusal:
    """What the plan does not do, and why. `of`: the partitions or replicas that it is about, which are shown behind `what`."""

    what: str
    of: tuple[PartitionKey | ReplicaKey, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Presumption:
    """What the plan rests on. `holds` says whether the run confirms it: None where it cannot tell; `how_to_check` is for a person."""

    what: str
    holds: bool | None
    how_to_check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """What one kind of finding asks for."""

    steps: tuple[PlanStep, ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()
    presumptions: tuple[Presumption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWay:
    """What the steps do not do, in a sentence of Markdown with its price; `commands`: lines of a shell, where it costs nothing."""

    text: str
    commands: tuple[str, ...] = ()


def _waits(action: Action, brokers: Collection[int]) -> bool:
    return isinstance(action, WaitForIsr) and bool({*action.brokers} & {*brokers})


def _narrowed(action: Action, brokers: Collection[int]) -> Action:
    return WaitForIsr(tuple(one for one in action.brokers if one in brokers)) if isinstance(action, WaitForIsr) else action


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All steps of one cluster in order. `truncations`: lines of Markdown, who truncates what under which leader.

    `crossed`: partitions whose best leader the order of starts has no place for. `instead`: other ways, each with its price.
    """

    run_id: str
    cluster_id: str
    steps: tuple[PlanStep, ...]
    refusals: tuple[PlanRefusal, ...] = ()
    presumptions: tuple[Presumption, ...] = ()
    truncations: tuple[str, ...] = ()
    instead: tuple[OtherWay, ...] = ()
    crossed: frozenset[PartitionKey] = frozenset()

    def about(self, key: PartitionKey, brokers: Collection[int]) -> tuple[tuple[int, tuple[Action, ...]], ...]:
        """The steps about a partition whose replicas are on `brokers`: the number of each, and those of its actions that are about it."""
        found = []
        for number, step in enumerate(self.steps, 1):
            own = {action for action in step.actions if key in partitions_of(action)}
            own |= {action for action in step.actions if isinstance(action, StartBroker | StopBroker) and action.broker in brokers}
            if own:
                found.append(
                    (number, tuple(_narrowed(action, brokers) for action in step.actions if action in own or _waits(action, brokers)))
                )
        return tuple(found)

    @property
    def files(self) -> tuple[PlanFile, ...]:
        """Every file of every step."""
        return tuple(file for step in self.steps for file in step.files)
