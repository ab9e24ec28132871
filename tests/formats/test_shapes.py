"""Rows of files that `collect` writes hold what the values of the same name hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from replica_audit import model
from replica_audit.formats import values
from replica_audit.formats.values import struct_of_value

VALUES = [
    (values.RUN, model.BatchRun, ()),
    (values.WINDOW, model.Window, ()),
    (values.PROBLEM, model.Problem, ()),
]


@pytest.mark.parametrize(("shape", "kind", "keys"), VALUES, ids=[kind.__name__ for _shape, kind, _keys in VALUES])
def test_a_shape_has_the_fields_of_its_value(shape: pa.StructType, kind: Any, keys: tuple[str, ...]) -> None:
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)
    assert {field.name for field in shape} == {name for name in names if name not in keys}


def test_epochs_and_ids_are_int_and_offsets_bigint() -> None:
    """As Kafka has them: int32 and int64."""
    spans = values.PRODUCERS.field("spans").type.value_type
    for shape in (values.RUN, values.WINDOW, values.PROBLEM, spans):
        for field in shape:
            if field.name.endswith(("offset", "_ms", "_bytes", "count", "watermark", "line")):
                assert field.type == pa.int64(), field.name
            elif field.name.endswith(("epoch", "_id", "leader")) and field.name != "producer_id":
                assert field.type == pa.int32(), field.name


def test_a_field_of_another_kind_has_to_be_told() -> None:
    with pytest.raises(TypeError, match="segments"):
        struct_of_value(model.ReplicaFiles)
