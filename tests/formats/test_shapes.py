"""Rows between stages hold what the values of the same name hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from replica_audit import model
from replica_audit.formats import shapes
from replica_audit.formats.shapes import struct_of_value
from replica_audit.model import CommittedOffset, LoggedVersions
from replica_audit.protocol.cluster.log_events import LogEvent

VALUES = [
    (shapes.RUN, model.BatchRun, ()),
    (shapes.WINDOW, model.Window, ()),
    (shapes.PROBLEM, model.Problem, ()),
    (shapes.SEGMENT_FILE, model.SegmentFile, ()),
    (shapes.REPLICA_FILES, model.ReplicaFiles, ()),
    (shapes.ELECTION, model.Election, ()),
    (shapes.ISR_CHANGE, model.IsrChange, ()),
    (shapes.MIN_ISR_SETTING, model.MinIsrSetting, ()),
    (shapes.BROKER_EVENT, model.BrokerEvent, ()),
    (shapes.PARTITION_METADATA, model.PartitionMetadata, ("topic", "partition")),
    (shapes.LOG_EVENT, LogEvent, ("topic", "partition", "broker_id")),
    (shapes.COMMITTED_OFFSET, CommittedOffset, ("topic", "partition")),
    (shapes.TRANSACTION_STATE, model.TransactionState, ()),
    (shapes.LOGGED_VERSIONS, LoggedVersions, ()),
]


@pytest.mark.parametrize(("shape", "kind", "keys"), VALUES, ids=[kind.__name__ for _shape, kind, _keys in VALUES])
def test_a_shape_has_the_fields_of_its_value(shape: pa.StructType, kind: Any, keys: tuple[str, ...]) -> None:
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)
    assert {field.name for field in shape} == {name for name in names if name not in keys}


def test_epochs_and_ids_are_int_and_offsets_bigint() -> None:
    """As Kafka has them: int32 and int64."""
    for shape in (shapes.RUN, shapes.ELECTION, shapes.ISR_CHANGE, shapes.BROKER_EVENT, shapes.PARTITION_METADATA, shapes.LOG_EVENT):
        for field in shape:
            if field.name.endswith(("offset", "_ms", "_bytes", "count", "watermark", "line")):
                assert field.type == pa.int64(), field.name
            elif field.name.endswith(("epoch", "_id", "leader")) and field.name not in ("topic_id", "no_leader"):
                assert field.type == pa.int32(), field.name


def test_a_field_of_another_kind_has_to_be_told() -> None:
    with pytest.raises(TypeError, match="segments"):
        struct_of_value(model.ReplicaFiles)
