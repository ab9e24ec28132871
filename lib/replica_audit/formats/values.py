"""Values of `model` as rows of the files that `collect` writes: their columns, and the widths of their numbers."""

from __future__ import annotations

import dataclasses
from operator import itemgetter
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from replica_audit.model import BatchRun, Problem, Producers, ProducerSpan, SequenceGap, Window
from replica_audit.rows.arrow import BIGINT, BOOLEAN, INT, STRING
from replica_audit.rows.columns import Hint

Row = dict[str, Any]
# the values of such rows in the order of the tuples that they become
_SPAN, _GAP = itemgetter(*ProducerSpan._fields), itemgetter(*SequenceGap._fields)


def producers_row(producers: Producers) -> Row:
    """The producers of a segment as a row of the shape PRODUCERS."""
    row: Row = producers._asdict()
    return {**row, **{name: [one._asdict() for one in row[name]] for name in ("spans", "gaps")}}


def producers_value(row: Row | None) -> Producers | None:
    """A row of the shape PRODUCERS as a value."""
    if row is None:
        return None
    spans, gaps = map(ProducerSpan._make, map(_SPAN, row["spans"])), map(SequenceGap._make, map(_GAP, row["gaps"]))
    return Producers(tuple(spans), tuple(gaps), row["untold_batches"])


INT_NAMES = frozenset(
    {
        "leader_epoch",
        "metadata_epoch",
        "answered_epoch",
        "log_epoch",
        "magic",
        "producer_epoch",
        "producer_epoch_before",
        "first_epoch",
        "last_epoch",
        "last_marker_epoch",
        "first_sequence",
        "last_sequence",
        "expected_sequence",
        "found_sequence",
        "partition",
        "leader",
        "leader_id",
        "broker",
        "broker_id",
    }
)


def struct_of_value(kind: type, **given: pa.DataType) -> pa.StructType:
    """A value of `model` or `protocol` as a struct: of a number the width that its name has everywhere, lists of numbers are of ids.

    Args:
        kind: a dataclass or named tuple.
        given: the types of fields that are themselves values, or whose name says something else here.
    """
    annotations = get_type_hints(kind)
    names = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]
    return pa.struct([(name, given.get(name) or _type_of(name, annotations[name])) for name in names])


def _type_of(name: str, annotation: Any) -> pa.DataType:
    kind = Hint.of(annotation).kind
    if get_origin(kind) is tuple and get_args(kind)[0] is int:
        return pa.list_(INT)
    if kind is bool:
        return BOOLEAN
    if kind is int:
        return INT if name in INT_NAMES else BIGINT
    if isinstance(kind, type) and issubclass(kind, str):
        return STRING
    raise TypeError(f"{name}: the type of {annotation} has to be given")


RUN = struct_of_value(BatchRun)
WINDOW = struct_of_value(Window)
PRODUCERS = struct_of_value(Producers, spans=pa.list_(struct_of_value(ProducerSpan)), gaps=pa.list_(struct_of_value(SequenceGap)))
PROBLEM = struct_of_value(Problem)
