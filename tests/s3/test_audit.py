"""Inputs in an object store give the tables that the same files give on this machine; what cannot be read there is told as a row."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from replica_audit import cli
from replica_audit.errors import UsageError
from replica_audit.files.locations import located
from replica_audit.rows import INPUT_ERRORS, OF_PARTITIONS
from replica_audit.storage.inputs.sources import discover
from tests.collect.collections import collect_cluster
from tests.house.checkout import ROOT
from tests.s3.store import Store
from tests.support import in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
SAMPLE = ROOT / "tests" / "data" / "sample"
CLUSTERS = ("committed-loss", "kafka-1.1.1-kip279-scenario-1-all", "multi-round", "three-way")
Row = dict[str, Any]


@pytest.fixture(scope="module")
def uploaded(store: Store) -> str:
    """Sample clusters, each in a folder of its own, below a prefix of a bucket."""
    store.client().create_bucket(Bucket="backup")
    for name in CLUSTERS:
        store.upload(SAMPLE / name, "backup", f"nightly/{name}/")
    return "s3a://backup/nightly"


def comparable(rows: list[Row], moved: tuple[str, str] = ("", "")) -> Counter[str]:
    bare = ({key: value for key, value in row.items() if key not in ("run_id", "cluster_id", "run_date")} for row in rows)
    return Counter(json.dumps(row, sort_keys=True, default=str).replace(*moved) for row in bare)


@pytest.mark.spark
def test_tables_equal_those_of_the_same_files_here(spark: SparkSession, uploaded: str, tmp_path: Path) -> None:
    assert spark.version
    assert cli.main(["audit", "--input", f"{uploaded}/multi-round", "--warehouse", str(tmp_path)]) == 1
    expected = in_process.audit(SAMPLE / "multi-round")
    for table in (*OF_PARTITIONS, INPUT_ERRORS):
        rows = in_process.rows(DeltaTable(str(tmp_path / table.name)).to_pyarrow_table())
        assert comparable(rows) == comparable(expected[table.name], (str(SAMPLE), uploaded)), table.name
    assert DeltaTable(str(tmp_path / "replica_verdicts")).to_pyarrow_table().num_rows == 3


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_cluster_reads_the_same(uploaded: str, name: str) -> None:
    there = in_process.audit(located(f"{uploaded}/{name}"))
    here = in_process.audit(SAMPLE / name)
    assert there.keys() == here.keys()
    for table, rows in here.items():
        assert comparable(there[table]) == comparable(rows, (str(SAMPLE), uploaded)), table


def test_what_was_collected_reads_the_same(store: Store, tmp_path: Path) -> None:
    collection = collect_cluster(SAMPLE / "multi-round", tmp_path / "collected")
    store.upload(collection, "collected")
    there, here = in_process.audit(located("s3://collected")), in_process.audit(collection)
    for table, rows in here.items():
        assert comparable(there[table]) == comparable(rows, (str(collection), "s3://collected")), table


def test_folders_of_clusters_are_found(uploaded: str) -> None:
    found = discover([uploaded])
    assert [str(root.path) for root in found.roots] == [f"{uploaded}/{name}" for name in CLUSTERS]
    assert not found.problems


@pytest.mark.parametrize(
    "given", ["s3://no-such-bucket/x", "s3a://backup/no-such-folder", "s3://backup/nightly/multi-round/cluster-metadata.json"]
)
def test_what_is_not_there_is_told(uploaded: str, given: str) -> None:
    ((_cluster, problem),) = discover([given]).problems
    assert (problem.path, problem.code) == (given, "not-a-directory" if given.endswith(".json") else "no-such-path")


@pytest.mark.parametrize("given", ["s3://", "s3:///backup/x", "s3://backup//x", "s3://backup/../x", "https://x/y", "ftp://x"])
def test_addresses_that_name_no_folder_of_a_store_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="--input"):
        discover([given])
