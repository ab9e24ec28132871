"""What a store refuses or cannot give becomes a row of `input_errors` with a remedy; the rest is audited."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from replica_audit import cli
from replica_audit.files import object_store
from replica_audit.files.locations import located
from replica_audit.stages.inventory import list_source
from replica_audit.stages.segments import scan_segment
from replica_audit.storage.inputs.sources import discover
from tests.house.checkout import ROOT
from tests.s3.store import Store
from tests.support import in_process
from tests.support.items import readings, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
ROOT_FOLDER = ROOT / "tests" / "data" / "sample" / "multi-round"
SEGMENT = "broker-2/data-0/ledger-0/00000000000000000000.log"
CHECKPOINT = "broker-2/data-0/ledger-0/leader-epoch-checkpoint"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def uploaded(store: Store) -> str:
    store.upload(ROOT_FOLDER, "brokers")
    return "s3://brokers"


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.fixture
def limited(store: Store, uploaded: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask as a user who may list the bucket and read all objects but a segment and a checkpoint."""
    assert uploaded
    access = boto3.client("iam", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106
    name = f"auditor-{secrets.token_hex(4)}"
    access.create_user(UserName=name)
    statements = [
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:GetObject", "Resource": [f"arn:aws:s3:::brokers/{key}" for key in (SEGMENT, CHECKPOINT)]},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    access.put_user_policy(UserName=name, PolicyName="reads", PolicyDocument=document)
    key = access.create_access_key(UserName=name)["AccessKey"]
    store.check_rights(after_calls=0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    yield
    store.check_rights(after_calls=1 << 62)


def problems(tables: dict[str, list[Row]], key: str) -> list[Row]:
    rows = [*tables["problems"], *tables["input_errors"]]
    return [row for row in rows if row["path"] == f"s3://brokers/{key}"]


def test_access_denied_to_some_objects(limited: None) -> None:
    tables = in_process.audit(located("s3://brokers"))
    for key in (SEGMENT, CHECKPOINT):
        (row,) = problems(tables, key)
        assert row["code"] == "cannot-read"
        assert "ACCESS_DENIED" in row["detail"]
        assert "credentials" in row["remedy"]
    ((verdict, others),) = [
        (row["verdict"], [other["verdict"] for other in tables["replica_verdicts"] if other is not row])
        for row in tables["replica_verdicts"]
        if (row["topic"], row["partition"]) == ("ledger", 0)
    ]
    assert verdict in ("unreadable", "inconclusive")
    here = [
        row["verdict"] for row in in_process.audit(ROOT_FOLDER)["replica_verdicts"] if (row["topic"], row["partition"]) != ("ledger", 0)
    ]
    assert sorted(others) == sorted(here), "what can be read is audited as if nothing were wrong"


def test_access_denied_to_the_bucket(limited: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    ((_cluster, problem),) = discover(["s3://brokers"]).problems
    assert problem.code == "cannot-read"
    assert "credentials" in problem.remedy or "AWS_ACCESS_KEY_ID" in problem.remedy


def test_an_object_that_goes_after_it_was_listed(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT_FOLDER, copy)
    store.upload(copy, "going")
    parts = [part for item in readings(list_source(source("s3://going/broker-2", 2))) for part in item.value.parts]
    (part,) = [one for one in parts if (one.topic, one.partition) == ("ledger", 0)]
    store.client().delete_object(Bucket="going", Key=SEGMENT)
    found = scan_segment(part)
    assert found.failed
    (problem,) = found.problems
    assert (problem.path, problem.code, problem.detail) == (f"s3://going/{SEGMENT}", "gone", "does not exist in the store")


def test_an_object_that_was_replaced_since_is_asked_about_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.client().create_bucket(Bucket="nightly")
    place = located("s3://nightly/broker-1/meta.properties")
    for content in (b"version=1", b"version=1, and more"):
        store.client().put_object(Bucket="nightly", Key="broker-1/meta.properties", Body=content)
        assert place.stat().st_size == len(content)
        monkeypatch.setattr(object_store, "_KEPT_SECONDS", 0)  # an audit later


@pytest.mark.spark
def test_no_store_there_is_2_before_anything_is_written(
    spark: SparkSession, closed_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.version
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{closed_port}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert cli.main(["audit", "--input", "s3a://backup/nightly", "--warehouse", str(tmp_path / "warehouse")]) == 2
    said = capsys.readouterr().err
    assert "  s3a://backup/nightly: " in said
    assert "AWS_ENDPOINT_URL_S3" in said
    assert not (tmp_path / "warehouse").exists()
