"""What a table is made of, derived from the class of its rows.

A field of a row class is a column: its name, its type, null where the annotation has `| None`, and the comment in `Annotated`. Offsets are
bigint, epochs, ids and partitions int. `_offset` ends are exclusive (`end`, `log_end_offset`) unless named `last_`. Nothing here knows
Arrow: `rows.arrow` maps a class to it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum, auto
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from replica_audit.rows.blocks import RowBlock
from replica_audit.rows.codes import SEVERITY_RANKS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


_T = TypeVar("_T")


class Width(Enum):
    """How many bits a whole number has in its column."""

    INT = auto()  # 32
    BIGINT = auto()  # 64


Int = Annotated[int, Width.INT]
Bigint = Annotated[int, Width.BIGINT]
NOT_NULL_KEPT = "keeps NOT NULL"  # in the annotation of a nested class: its fields are not nullable in Arrow either


class Hint(NamedTuple):
    """An annotation taken apart: the type without null, what `Annotated` adds to it, and whether null is allowed."""

    kind: Any
    told: tuple[Any, ...]
    nullable: bool

    @classmethod
    def of(cls, annotation: Any) -> Hint:
        """Take an annotation apart."""
        told: tuple[Any, ...] = ()
        nullable = False
        while True:
            if get_origin(annotation) is Annotated:
                told += annotation.__metadata__
                annotation = annotation.__origin__
            elif get_origin(annotation) in (Union, UnionType):
                (annotation,) = [part for part in get_args(annotation) if part is not NoneType]
                nullable = True
            else:
                return cls(annotation, told, nullable)


class Column(NamedTuple):
    """A column: name, annotation, comment, whether null is allowed."""

    name: str
    hint: Hint
    comment: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A Delta table. `constraints` maps a name to a CHECK expression that Spark, delta-rs and Python all know.

    `row` is the class of its rows; where that has no `run_id` and `cluster_id`, they are put in front of its columns, and `run_date` behind
    them if the table `is_dated`: if somebody compares its rows over nights. `widened` names the constraints that older versions have
    narrower: in their tables they are replaced; `relaxed` the columns that may not be null there. `has_change_feed`: Delta's Change Data
    Feed tells consumers what each commit inserted and deleted.
    """

    name: str
    grain: str
    columns: tuple[Column, ...] = field(hash=False)
    constraints: Mapping[str, str] = field(hash=False)
    widened: tuple[str, ...] = ()
    relaxed: tuple[str, ...] = ()
    has_change_feed: bool = False
    is_dated: bool = False
    row: type[DataclassInstance] | None = field(default=None, compare=False)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def of_run(self) -> tuple[str, ...]:
        """The columns that have one value in all rows of a run, which no stage knows."""
        return ("run_id", "run_date") if self.is_dated else ("run_id",)


@cache
def hints_of(row: type) -> Mapping[str, Hint]:
    """The fields of a row class."""
    annotations = get_type_hints(row, include_extras=True)
    return MappingProxyType({one.name: Hint.of(annotations[one.name]) for one in dataclasses.fields(row)})


def same_columns(of: type[_T], row: Any) -> _T:
    """A row of another class, as far as `of` has its columns."""
    kind: Any = of
    return of(**{name: getattr(row, name) for name in hints_of(kind)})


def columns_of(row: type) -> tuple[Column, ...]:
    """The columns of a row class."""
    return tuple(Column(name, hint, _comment(hint), hint.nullable) for name, hint in hints_of(row).items())


def _comment(hint: Hint) -> str:
    return next((one for one in hint.told if isinstance(one, str)), "")


RunId = Annotated[str, "the run that wrote the row"]
ClusterId = Annotated[str, "cluster.id of the audited cluster; a path where it is unknown"]
Topic = Annotated[str, "topic name"]
PartitionNumber = Annotated[Int, "partition number"]
Broker = Annotated[Int, "broker that holds the replica"]
Leader = Annotated[Int, "broker that leads the partition; -1: unknown"]
Follower = Annotated[Int, "broker that follows"]
LeaderSource = Annotated[str, "where the leader is known from: cluster-metadata, metadata-log or inferred"]
PARTITION_CHECK = {"partition_not_negative": "partition >= 0"}


@dataclass(frozen=True, kw_only=True)
class RunKeys:
    """The columns that every table begins with."""

    __slots__ = ()

    run_id: RunId
    cluster_id: ClusterId


KEYS = columns_of(RunKeys)


@dataclass(frozen=True, kw_only=True)
class RunDate:
    """The column of the tables that are dated."""

    __slots__ = ()

    run_date: Annotated[date | None, "the date the run is for, as in audit_runs; null: written by an older version"]


SeverityRank = Annotated[Int | None, "the severity as a number: 0 critical, 1 error, 2 warning, 3 none; null: written by an older version"]


class RankedRow:
    """A row with a `severity`, from which its `severity_rank` follows, whatever it is given."""

    __slots__ = ()

    severity: str

    def __post_init__(self) -> None:
        """Rank it."""
        object.__setattr__(self, "severity_rank", SEVERITY_RANKS.get(self.severity))


@dataclass(frozen=True, kw_only=True)
class OfPartition:
    """The columns that rows about a partition begin with."""

    __slots__ = ()

    topic: Topic
    partition: PartitionNumber


@dataclass(frozen=True, kw_only=True)
class OfReplica(OfPartition):
    """The columns that rows about a replica begin with."""

    __slots__ = ()

    broker_id: Broker


@dataclass(frozen=True, kw_only=True)
class OfPair(OfPartition):
    """The columns that rows about a leader and a follower begin with."""

    __slots__ = ()

    leader_id: Leader
    follower_id: Follower


def table(
    row: type[DataclassInstance],
    *,
    name: str,
    grain: str,
    constraints: Mapping[str, str] = MappingProxyType({}),
    widened: tuple[str, ...] = (),
    relaxed: tuple[str, ...] = (),
    has_change_feed: bool = False,
    is_dated: bool = False,
) -> Table:
    """Return the table of a row class."""
    own = columns_of(row)
    own = own[len(KEYS) :] if own[: len(KEYS)] == KEYS else own
    columns = (*KEYS, *(columns_of(RunDate) if is_dated else ()), *own)
    return Table(
        name=name,
        grain=grain,
        columns=columns,
        constraints={**PARTITION_CHECK, **constraints} if issubclass(row, OfPartition) else constraints,
        widened=widened,
        relaxed=relaxed,
        has_change_feed=has_change_feed,
        is_dated=is_dated,
        row=row,
    )


def utc(milliseconds: int | None) -> datetime | None:
    """Milliseconds since the epoch as a time; None for None and for -1, Kafka's unknown time."""
    if milliseconds is None or not 0 <= milliseconds < 1 << 47:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


_WORDS = ((r"\bIS NULL\b", "is None"), (r"\bIN \(", "in ("), (r"\bOR\b", "or"), (r"\bAND\b", "and"), (r"(?<![<>!])=", "=="))
_TEXT = re.compile(r"('[^']*')")


def checker(table: Table) -> Callable[[Any], str | None]:
    """Return a function that names what a row violates: a column that may not be null, or a check of the table; None: nothing.

    As in Delta a check is violated unless it is true: null is not.
    """
    parts = _parts(table)
    whole = _compiled(_and([part for _check, part in parts]))
    single = [(check, _compiled(part)) for check, part in parts]

    def violation(row: Any) -> str | None:
        return None if _holds(whole, row) else next(check for check, holds in single if not _holds(holds, row))

    return violation


def all_pass(table: Table) -> Callable[[Any], bool]:
    """Return a function that says whether several rows all violate nothing, asked of all at once; `checker` says what one violates."""
    parts = _and([part for _check, part in _parts(table)])
    every = _compiled(f"all([{parts} for row in rows])", "rows")
    names = sorted(set(re.findall(r"\brow\.(\w+)", parts)))
    values = ", ".join(f"columns['{name}']" for name in names)
    of_columns = _compiled(f"all([{parts.replace('row.', '')} for {', '.join(names)}, in zip({values})])" if names else "True", "columns")

    def passes(rows: Any) -> bool:
        return not rows or (_holds(of_columns, rows.columns) if isinstance(rows, RowBlock) else _holds(every, rows))

    return passes


def _parts(table: Table) -> list[tuple[str, str]]:
    """Each check by its name, or the column that may not be null, and what must be true of `row`."""
    parts = [(column.name, f"row.{column.name} is not None") for column in table.columns[len(KEYS) :] if not column.nullable]
    return parts + [(check, in_python(expression)) for check, expression in table.constraints.items()]


def _and(parts: Sequence[str]) -> str:
    return " and ".join(f"({part})" for part in parts) or "True"


def _holds(check: Callable[[Any], Any], asked: Any) -> bool:
    try:
        return bool(check(asked))
    except TypeError:  # null compared with something
        return False


def _compiled(expression: str, of: str = "row") -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = eval(f"lambda {of}: {expression}", {})  # noqa: S307 - made of the project's own tables
    return found


def in_python(expression: str) -> str:
    """A CHECK expression as one of Python, about the attributes of `row`."""
    made = ""
    for part in _TEXT.split(expression):
        if not part.startswith("'"):
            part = re.sub(r"\b[a-z]\w*", r"row.\g<0>", part)
            for words, means in _WORDS:
                part = re.sub(words, means, part)
        made += part
    return made
