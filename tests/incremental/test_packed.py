"""Looks, claims and rows that tasks hand to each other packed: nothing is lost, and those of a partition meet."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.engine.arrow import frame_of, pack
from replica_audit.engine.moved_logs import packed_logs, with_moments
from replica_audit.formats.shapes import INVENTORY, LOOKED, MOVED
from replica_audit.formats.values import metadata_row
from replica_audit.model import Appearance, Election, PartitionLook, PartitionMetadata
from replica_audit.rows import REPLICA_LOGS
from replica_audit.rows.arrow import INT, STRING, schema_of, struct
from replica_audit.rows.packed_rows import PACKS, by_pack, pack_of, packed, unpacked
from replica_audit.rows.replicas import ReplicaLog
from replica_audit.stages.inventory import Listing
from replica_audit.stages.packed_claims import claims_of, with_packed_claims
from replica_audit.stages.packed_looks import _packs
from tests.rows.values import full_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = {"cluster_id": "c", "broker_id": 1}
MOMENTS = ("captured_at", "crcs_verified_at", "looked_again_at")
Row = dict[str, Any]


@pytest.mark.spark
def test_spark_numbers_packs_as_python_does(spark: SparkSession) -> None:
    keys = list(product(("c", "Ünïcode"), ("orders", "a.b_c-d", "主题"), range(200)))
    schema = pa.schema(list(struct(cluster_id=STRING, topic=STRING, partition=INT)))
    found = frame_of(spark, keys, schema).select("*", pack().alias("pack")).collect()
    assert {tuple(row[:3]): row["pack"] for row in found} == {key: pack_of(*key) for key in keys}
    assert len({row["pack"] for row in found}) == PACKS, "they are spread"


@given(st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3)), max_size=30))
def test_rows_come_back_in_order(rows: list[tuple[int, str]]) -> None:
    schema = pa.schema(list(struct(pack=INT, text=STRING)))
    batch = pa.RecordBatch.from_pylist([{"pack": one, "text": text} for one, text in rows], schema=schema)
    found = {number: unpacked(packed(some)).to_pylist() for number, some in by_pack(batch, [one for one, _text in rows])}
    assert found == {one: [row for row in batch.to_pylist() if row["pack"] == one] for one, _text in rows}


def look(partition: int, **values: Any) -> PartitionLook:
    return PartitionLook(topic="orders", partition=partition, look=Appearance(identity="1", **values))


def test_a_look_that_no_column_holds_is_told_and_the_others_go_on() -> None:
    """A log directory may have a name that is not Unicode."""
    healthy = [look(0, log_dir="/data", directory="orders-0", captured_at_ms=5), look(2)]
    rows = list(_packs(SOURCE, [healthy[0], look(1, log_dir="/data-\udcff", directory="orders-1"), healthy[1]]))
    (told,) = [row["problem"] for row in rows if "problem" in row]
    assert (told["code"], told["path"]) == ("unusable-value", "orders-1")
    assert "look.log_dir" in told["detail"]
    packs = [row["looks"] for row in rows if "looks" in row]
    found = [one for pack in packs for one in unpacked(pack["rows"]).to_pylist()]
    assert sorted((one["partition"], one["directory"]) for one in found) == [(0, "orders-0"), (2, None)]
    assert (sum(pack["replicas"] for pack in packs), sum(pack["captured"] for pack in packs)) == (1, 1)
    assert all(pack["pack"] == pack_of("c", "orders", one["partition"]) for pack in packs for one in unpacked(pack["rows"]).to_pylist())


def log(partition: int, broker: int, directory: str = "orders") -> Row:
    row = {name: getattr(full_row(ReplicaLog), name) for name in REPLICA_LOGS.names[1:] if hasattr(ReplicaLog, name)}
    plain = {field.name for field in schema_of(REPLICA_LOGS) if not pa.types.is_nested(field.type)}
    keys = {"cluster_id": "c", "topic": "orders", "partition": partition, "broker_id": broker, "directory": f"{directory}-{partition}"}
    return {name: value for name, value in row.items() if name in plain} | keys | {"log_dir": "/data"}


def looked(broker: int, *looks: PartitionLook) -> list[Row]:
    rows = _packs({**SOURCE, "broker_id": broker}, looks)
    return [{**SOURCE, "broker_id": broker, "pack": row["looks"]["pack"], "looks": row["looks"]["rows"]} for row in rows]


def test_each_replica_gets_its_own_moments() -> None:
    schema = pa.schema(list(schema_of(REPLICA_LOGS))[1:])
    rows = [log(0, 1), log(0, 2), log(1, 1), log(2, 1)]
    logs = [row for batch in packed_logs(iter([pa.RecordBatch.from_pylist(rows, schema=schema)])) for row in batch.to_pylist()]
    looks = [
        *looked(1, look(0, log_dir="/data", directory="orders-0", captured_at_ms=1000, verified_at_ms=2000), look(0, known_at_ms=7)),
        *looked(1, look(1, log_dir="/data", directory="orders-1", captured_at_ms=3000, looked_at_ms=4000)),
        *looked(2, look(0, log_dir="/data", directory="orders-0", captured_at_ms=5000)),
        *looked(1, look(2, log_dir="/other", directory="orders-2", captured_at_ms=6000)),
    ]
    moved = pa.RecordBatch.from_pylist([*looks, *logs], schema=MOVED)
    found = pa.Table.from_batches(list(with_moments(iter([moved.slice(0, 3), moved.slice(3)]))), schema=schema).to_pylist()
    times = {(row["partition"], row["broker_id"]): tuple(row[name] and row[name].timestamp() for name in MOMENTS) for row in found}
    assert times == {(0, 1): (1, 2, None), (1, 1): (3, None, 4), (0, 2): (5, None, None), (2, 1): (None, None, None)}
    before = pa.Table.from_pylist(rows, schema=schema).drop_columns(list(MOMENTS)).to_pylist()
    after = pa.Table.from_pylist(found, schema=schema).drop_columns(list(MOMENTS)).to_pylist()
    assert sorted(map(str, after)) == sorted(map(str, before))


def test_no_rows_are_none() -> None:
    assert list(with_moments(iter([pa.RecordBatch.from_pylist(looked(1, look(0)), schema=MOVED)]))) == []
    assert LOOKED.names[2:] == list(Appearance._fields)


def claimed(partition: int, *, topic: str = "orders", **values: Any) -> Row:
    named = PartitionMetadata(
        topic=topic,
        partition=partition,
        topic_id="A",
        compacted=None,
        leader=1,
        leader_epoch=3,
        replicas=(1, 2),
        isr=(1,),
        source="metadata-log",
        elections=(Election(3, 1, "clean", (1, 2), (), 40, 2, 1_000),),
    )
    row = metadata_row(replace(named, **values))
    return {**SOURCE, "is_audited": True, "topic": row.pop("topic"), "partition": row.pop("partition"), "metadata": row}


LATER = Listing(replicas=frozenset())


def unpacked_claims(rows: list[Row], replicas: frozenset[tuple[str, str, int]] | None) -> list[Row]:
    packs = pa.RecordBatch.from_pylist(rows, schema=pa.schema([*struct(cluster_id=STRING, broker_id=INT), pa.field("claims", pa.binary())]))
    batches = list(claims_of([packs], replicas))
    assert all(batch.schema == INVENTORY for batch in batches)
    return [{name: value for name, value in row.items() if value is not None} for batch in batches for row in batch.to_pylist()]


def test_claims_of_chosen_partitions_come_out_of_packs_as_they_went_in() -> None:
    rows = [claimed(0), claimed(0, topic="other"), claimed(1, leader=-1, elections=()), claimed(2)]
    packs = list(with_packed_claims(rows, LATER))
    (pack,) = packs
    assert pack.keys() == {"cluster_id", "broker_id", "is_audited", "claims"}
    as_listed = [row for batch in [pa.RecordBatch.from_pylist(rows, schema=INVENTORY)] for row in batch.to_pylist()]
    expected = [{name: value for name, value in row.items() if value is not None} for row in as_listed]
    assert unpacked_claims(packs, None) == expected
    assert unpacked_claims(packs, frozenset({("c", "orders", 0), ("c", "orders", 1), ("d", "orders", 2)})) == [expected[0], expected[2]]
    assert unpacked_claims(packs, frozenset()) == []


def test_claims_that_are_read_now_stay_rows() -> None:
    rows: list[Row] = [claimed(0), claimed(0, topic="__consumer_offsets"), {**SOURCE, "problem": {"code": "malformed"}}]
    assert list(with_packed_claims(rows, Listing())) == rows
    assert list(with_packed_claims(rows, LATER))[:2] == rows[1:]
    assert list(with_packed_claims(rows[1:], LATER)) == rows[1:]


def test_a_claim_that_no_column_holds_is_told_and_the_others_go_on() -> None:
    rows = list(with_packed_claims([claimed(0), claimed(1, leader=1 << 40), claimed(2)], LATER))
    (told,) = [row["problem"] for row in rows if "problem" in row]
    assert (told["code"], told["path"]) == ("unusable-value", "orders-1")
    assert "metadata.leader" in told["detail"]
    assert [row["partition"] for row in unpacked_claims([row for row in rows if "claims" in row], None)] == [0, 2]


def test_many_claims_are_in_several_packs() -> None:
    packs = list(with_packed_claims(map(claimed, range(10_000)), LATER))
    assert len(packs) == 2
    assert [row["partition"] for row in unpacked_claims(packs, None)] == list(range(10_000))
