"""Where a report's rows come from: the tables of a warehouse, or of an audit in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from replica_audit.rows.columns import ClusterId, PartitionNumber, Topic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RowT = TypeVar("RowT", bound="DataclassInstance")


class Tables(Protocol):
    """Tables by name, a class of rows whose fields name the wanted columns, and the values that columns must equal.

    `cut_short` names the tables that held more rows than were read.
    """

    location: str
    cut_short: list[str]

    def has(self, table: str) -> bool:
        """Whether there is such a table."""

    def rows(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, in no order."""

    def distinct(self, table: str, kind: type[RowT], /, **equal: str | int | None) -> tuple[RowT, ...]:
        """The rows, each value once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOfRow:
    """The cluster that a row is about."""

    cluster_id: ClusterId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """The partition that a row is about."""

    topic: Topic
    partition: PartitionNumber
