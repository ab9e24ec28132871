"""The whole audit in Spark: tables equal to what the rules give, replaced and visible as promised."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from deltalake import DeltaTable

from replica_audit import cli, pipeline
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.past.findings import ListedRows
from replica_audit.progress import ProgressEvent
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import Report
from replica_audit.report.text import plain_text as text
from replica_audit.report.text.json_report import json_pieces
from replica_audit.rows import (
    AUDIT_RUNS,
    BROKER_STARTS,
    CONSUMER_IMPACTS,
    DIFFERENCES,
    FINDINGS,
    FUTURE_REPLICAS,
    INPUT_ERRORS,
    LEADER_EPOCHS,
    OF_PARTITIONS,
    REPLICA_VERDICTS,
    SEGMENT_EPOCHS,
    TABLES,
    TRUNCATION_POINTS,
    Table,
)
from replica_audit.rows.codes import Protocol
from replica_audit.storage.warehouse.tables import DeltaWarehouse
from tests.engine.test_transactions import cluster as cluster_with_transactions
from tests.formats import kafka_files as kf
from tests.partition.test_sequence_gaps import HOLE, batches
from tests.scenarios.disks import TOPIC, Cluster, Disk
from tests.support import in_process
from tests.support.engines import differing_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
ROOTS = (*sorted(SAMPLE.iterdir()), SAMPLE.parent / "offline" / "nobody-leads", SAMPLE.parent / "transactions" / "before")
# what an audit can only say of a run that is kept
OF_KEPT_RUNS = {"run_id", "warehouse", "seconds", "changes"}
Row = dict[str, Any]
AUDITED = [*OF_PARTITIONS, INPUT_ERRORS]
EVERYTHING = Settings(what_if_leaders=True)


def run(
    spark: SparkSession,
    warehouse: Path | str,
    run_id: str,
    *inputs: Path,
    tell: Callable[[ProgressEvent], None] = lambda _event: None,
    **settings: Any,
) -> Report:
    request = pipeline.AuditRequest(
        inputs=tuple(str(path) for path in inputs),
        warehouse=str(warehouse),
        settings=Settings(**settings),
        run_id=run_id,
        run_date=date(2026, 1, 2),
    )
    return pipeline.audit(spark, request, tell)


def read(warehouse: Path, table: Table, **equal: object) -> list[Row]:
    """Read with delta-rs, as dashboards do: no JVM."""
    rows: list[Row] = DeltaTable(str(warehouse / table.name)).to_pyarrow_table().to_pylist()
    return [row for row in rows if all(row[key] == value for key, value in equal.items())]


def called(root: Path, cluster_id: bytes) -> Path:
    """A cluster that tests make, under an id of its own."""
    for path in (*root.rglob("meta.properties"), *root.rglob("cluster-metadata.json")):
        path.write_bytes(path.read_bytes().replace(kf.CLUSTER_ID.encode(), cluster_id))
    return root


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three logs that should be equal: one holds another batch, one a batch of which a byte was flipped."""
    folder = tmp_path_factory.mktemp("damaged")
    batches = [(1, 0, 4), (1, 5, 9), (2, 10, 11)]
    whole, other = (Disk(batches=batches, high_watermark=12, other_from=offset) for offset in (None, 5))
    Cluster(disks={1: whole, 2: other, 3: whole, 4: whole}, leader_epoch=2, isr=(1, 2, 3, 4)).audit(folder, Protocol.TRUNCATE_ON_FETCH)
    (home,) = folder.iterdir()
    (segment,) = (home / "broker-3" / "data-0" / f"{TOPIC}-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[80] ^= 1
    segment.write_bytes(content)
    return called(home, b"AAAAAAAAQAAAAAAAAAAAAQ")


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a producer are missing, beside transactions that are open."""
    folder = tmp_path_factory.mktemp("gaps")
    root = cluster_with_transactions(folder)
    for broker in (1, 2):
        kf.replica(root / f"broker-{broker}" / "data", "orders-0", batches=batches(HOLE))
    return called(root, b"AAAAAAAAQAAAAAAAAAAAAA")


class Audited(NamedTuple):
    """A run, and what it said on the way."""

    warehouse: Path
    inputs: tuple[Path, ...]
    report: Report
    told: list[str]


@pytest.fixture(scope="module")
def audited(spark: SparkSession, damaged: Path, gaps: Path, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """One run of everything that makes rows, which Spark brings together in ways of its own."""
    folder, told = tmp_path_factory.mktemp("audited"), list[str]()
    (folder / "broken").write_text("not a directory", encoding="utf-8")
    # not in the order of their names
    inputs = (SAMPLE, *ROOTS[-2:], damaged, gaps, folder / "broken")
    report = run(spark, folder / "warehouse", "first", *inputs, tell=lambda event: told.append(event.text), what_if_leaders=True)
    return Audited(folder / "warehouse", inputs, report, [line for line in told if line])  # an event of numbers alone has no text


def test_there_are_rows_to_compare(audited: Audited) -> None:
    empty = {table for table in AUDITED if not read(audited.warehouse, table)}
    assert empty <= {FUTURE_REPLICAS, DIFFERENCES}


def without_runs(document: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps({name: value for name, value in document.items() if name not in OF_KEPT_RUNS}, default=str)
    named = "first_seen_run_id|last_seen_run_id"
    return json.loads(re.sub(rf'"({named})": ("[^"]*"|null)', r'"\1": ""', text))  # type: ignore[no-any-return]


def test_triage_says_what_an_audit_says(spark: SparkSession, audited: Audited, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row of every table: both engines judge alike. What `report` reads back is what the audit said."""
    inputs = [str(path) for path in audited.inputs]
    assert differing_tables(audited.warehouse, inputs, EVERYTHING) == []
    options = [word for given in inputs for word in ("--input", given)]
    assert cli.main(["triage", *options, "--what-if-leaders", "--json", str(tmp_path / "triage.json")]) == 1
    kept = json.loads("".join(json_pieces(audited.report, ListedRows(pipeline.written_run(spark, str(audited.warehouse), "first")))))
    told = json.loads((tmp_path / "triage.json").read_text(encoding="utf-8"))
    assert without_runs(told) == without_runs(kept)
    assert told["findings"][0]["code"] == "offline_partition"
    assert len(kept["findings"]) == audited.report.finding_count > len(audited.report.findings)
    capsys.readouterr()
    assert cli.main(["report", "--warehouse", str(audited.warehouse), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == kept
    assert cli.main(["report", "--warehouse", str(audited.warehouse), "--format", "text"]) == 0
    assert capsys.readouterr().out == text.render(audited.report)


def test_the_worst_is_told_before_the_tables_are_written(spark: SparkSession, audited: Audited) -> None:
    compared = next(place for place, line in enumerate(audited.told) if line.startswith("compared the replicas of "))
    *first, rest = audited.told[compared + 1 : audited.told.index("writing the tables")]
    label = {cluster.cluster_id: cluster.label for cluster in audited.report.clusters}
    rows = ListedRows(pipeline.written_run(spark, str(audited.warehouse), "first"))
    worst = json.loads("".join(json_pieces(audited.report, rows)))["findings"][:5]
    for line, row in zip(first, worst, strict=True):
        assert line.startswith(f"{row['severity']}: {row['code']}: {row['topic']}-{row['partition']}")
        assert f" ({label[row['cluster_id']]}): " in line
        assert line.endswith(row["summary"])
    assert rest == f"and {audited.report.finding_count - 5} more; the summary follows"


def test_every_cluster_has_its_run(audited: Audited) -> None:
    warehouse, report = audited.warehouse, audited.report
    rows = read(warehouse, AUDIT_RUNS)
    assert len(rows) == len(ROOTS) + 2 == len(report.clusters)
    assert {(row["status"], row["exit_code"], row["run_date"]) for row in rows} == {("complete", 1, date(2026, 1, 2))}
    dated = [table for table in TABLES if table.is_dated]
    assert {FINDINGS, REPLICA_VERDICTS, BROKER_STARTS, CONSUMER_IMPACTS, LEADER_EPOCHS} <= set(dated)
    for table in dated:
        assert {row["run_date"] for row in read(warehouse, table)} == {date(2026, 1, 2)}, table.name
    counted = Counter({verdict: count for row in rows for verdict, count in dict(row["verdict_counts"]).items()})
    assert counted.keys() <= set(map(str, Verdict))
    by_table = Counter(row["verdict"] for row in read(warehouse, REPLICA_VERDICTS))
    total: Counter[str] = Counter()
    for row in rows:
        total.update(dict(row["verdict_counts"]))
    assert total == by_table


def test_four_protocols_per_pair_and_one_applies(audited: Audited) -> None:
    pairs: dict[tuple[object, ...], list[Row]] = {}
    for row in read(audited.warehouse, TRUNCATION_POINTS):
        pairs.setdefault(tuple(row[key] for key in ("cluster_id", "topic", "partition", "leader_id", "follower_id")), []).append(row)
    assert pairs
    for rows in pairs.values():
        protocols = [row["protocol"] for row in rows if row["kind"] == "protocol"]
        assert sorted(protocols) == ["high-watermark", "kip-101", "kip-279", "truncate-on-fetch"]
        assert sum(row["applies"] for row in rows) == 1


def test_tables_carry_comments_and_constraints(audited: Audited) -> None:
    for table in TABLES:
        place = audited.warehouse / table.name
        opened = DeltaTable(str(place))
        about = opened.metadata()
        assert about.description == table.grain
        assert {f"delta.constraints.{name}" for name in table.constraints} <= about.configuration.keys()
        assert about.configuration["delta.enableDeletionVectors"] == "false"
        comments = {field.name: field.metadata.get("comment") for field in opened.schema().fields}
        assert comments == {column.name: column.comment for column in table.columns}
        protocol = opened.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) <= (1, 4), "whatever reads Delta reads it"


def test_a_constraint_refuses_a_row_that_cannot_be(spark: SparkSession, audited: Audited) -> None:
    warehouse = DeltaWarehouse(spark, str(audited.warehouse))
    row = {**read(audited.warehouse, SEGMENT_EPOCHS)[0], "last_offset": -5}
    with pytest.raises(Exception, match="ascending"):
        warehouse.write_run(SEGMENT_EPOCHS, warehouse.frame(SEGMENT_EPOCHS, [row]), "bad", replace=False)
    assert not read(audited.warehouse, SEGMENT_EPOCHS, run_id="bad")


def number_of(label: str, report: Any) -> str:
    return str(1 + [cluster.label for cluster in report.clusters].index(label))


def test_the_summary_is_one_report_in_text_and_json(audited: Audited) -> None:
    report = audited.report
    lines = text.render(report).splitlines()
    assert max(len(line) for line in lines if not line.startswith(("  /", "  ./spark-submit.sh ", "      kafka-", "Tables:"))) <= 80
    number = number_of("committed-loss", report)
    assert lines[0].startswith("Brokers")
    assert "What to decide, worst first" in lines
    worst = next(line for line in lines if line.split()[:2] == [number, "billing-0"])
    assert worst.split() == [number, "billing-0", "2>1", "10", "10", "already:", "20", "records,", "20", "committed"]
    data = json.loads(json.dumps(report.as_json(), default=str))
    assert data["exit_code"] == 1
    assert str(report.findings[0].row.evidence).count("00000000000000000000.log") == 2
    assert len({cluster["label"] for cluster in data["clusters"]}) == len(ROOTS) + 2


@pytest.fixture
def warehouse(empty_warehouse: Path, tmp_path: Path) -> Path:
    """One that has no run."""
    shutil.copytree(empty_warehouse, tmp_path / "warehouse")
    return tmp_path / "warehouse"


@pytest.mark.nightly
def test_a_catalog_works_like_a_directory(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS audits")
    report = run(spark, "spark_catalog.audits", "one", SAMPLE / "multi-round")
    assert report.finding_count == 3
    assert spark.table("spark_catalog.audits.replica_verdicts").count() == 3


def test_the_summary_shows_who_is_affected_and_who_would_lead_better(audited: Audited) -> None:
    shown = text.render(audited.report)
    assert "consumers: 4 groups affected at 12 positions" in shown
    assert "unclean elections in the metadata log: 18" in shown
    assert "In 16 partitions brokers have since truncated records that only their audited" in shown, "to elect them brings nothing back"


@pytest.mark.usefixtures("warehouse")
class TestExitCodes:
    """The command's exit codes and messages, through its own entry point.

    `triage` ends by the same functions; what is only about these goes through Spark in the night.
    """

    @pytest.fixture(params=["triage", pytest.param("audit", marks=[pytest.mark.spark, pytest.mark.nightly])])
    def ends(self, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., int]:
        """Run the command with these arguments."""
        if request.param == "triage":
            return lambda *arguments: cli.main(["triage", *arguments])
        return lambda *arguments: self.audit(request.getfixturevalue("spark"), tmp_path, *arguments)

    def audit(self, spark: SparkSession, tmp_path: Path, *arguments: str) -> int:
        assert spark.version
        return cli.main(["audit", "--warehouse", str(tmp_path / "warehouse"), *arguments])

    def test_nothing_found_is_0_and_what_is_proven_healthy_is_counted(
        self, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As by the engine of this process; `audited` has what is stored without `--detail all`."""
        root, settings = SAMPLE / "clean-in-sync", tmp_path / "audit.yaml"
        settings.write_text("full_every_days: 7\ndetail: all\n", encoding="utf-8")
        assert self.audit(spark, tmp_path, "--input", str(root), "--full", "--config", str(settings)) == 0
        said = capsys.readouterr()
        assert "Exit code 0: nothing found" in said.out
        assert "--full does nothing any more: every audit is full" in said.err
        assert "full_every_days does nothing any more: every audit is full; take it out of the settings" in said.err
        made = in_process.audit(root, settings=Settings(detail="all"))
        stored = read(tmp_path / "warehouse", TRUNCATION_POINTS)
        assert len(stored) == len(made["truncation_points"]) == 4 * len(made["replica_verdicts"])
        (row,) = read(tmp_path / "warehouse", AUDIT_RUNS)
        assert 0 < sum(row["proven_pairs"] for row in made["checked"]) == row["proven_healthy"] < len(made["replica_verdicts"])

    def test_only_inconclusive_is_3(self, ends: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        partial = tmp_path / "partial"
        shutil.copytree(SAMPLE / "clean-in-sync", partial)
        shutil.rmtree(partial / "broker-3")
        assert ends("--input", str(partial), "--topics", "epochs") == 3
        assert "not collected" in capsys.readouterr().out

    def test_an_input_that_could_not_be_read_is_3(
        self, ends: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        inputs = ("--input", str(SAMPLE / "clean-in-sync"), "--input", str(tmp_path / "not-mounted"), "--topics", "epochs")
        assert ends(*inputs) == 3
        assert "Exit code 3: nothing at or above 'error', but some input could not be read" in capsys.readouterr().out

    def test_bad_inputs_are_reported_and_the_rest_is_audited(
        self, ends: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        empty, other = tmp_path / "empty", tmp_path / "photos"
        empty.mkdir()
        other.mkdir()
        (other / "cat.jpg").write_bytes(b"\xff\xd8\xff")
        broken = tmp_path / "broken"
        shutil.copytree(SAMPLE / "multi-round", broken)
        checkpoint = broken / "broker-2" / "data-0" / "ledger-0" / "leader-epoch-checkpoint"
        checkpoint.write_bytes(bytes(range(256)))
        inputs = [str(empty), str(other), str(tmp_path / "missing"), str(broken)]
        written = tmp_path / "out.json"
        assert ends("--json", str(written), *(part for path in inputs for part in ("--input", path))) == 1
        out = capsys.readouterr().out
        report = json.loads(written.read_text(encoding="utf-8"))
        rows = {row["path"]: row for row in report["problems"]}
        assert {path: rows[path]["code"] for path in [*inputs[:3], str(checkpoint)]} == {
            str(empty): "nothing-recognised",
            str(other): "nothing-recognised",
            str(tmp_path / "missing"): "no-such-path",
            str(checkpoint): "malformed",
        }
        assert rows[str(checkpoint)]["byte_offset"] == 128
        assert all(row["remedy"] for row in rows.values())
        assert all(path in "".join(out.split()) for path in rows), "a long path is broken between its parts"
        assert report["compared_followers"] == 2, "the third has no table to compare by"

    def test_findings_below_fail_on_are_0_and_a_run_that_reads_nothing_is_2_and_never_the_latest(
        self, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What a first look takes for a broker, and has nothing in it: the findings of the run before stay what they were."""
        root, hollow, metrics = SAMPLE / "elr-election", tmp_path / "hollow", tmp_path / "audit.prom"
        shutil.copytree(root, hollow, ignore=lambda _path, names: [name for name in names if name.startswith("vault-")])
        options = ("--topics", "vault", "--metrics", str(metrics), "--json", str(tmp_path / "out.json"), "--fail-on", "critical")
        assert self.audit(spark, tmp_path, "--input", str(root), "--run-id", "good", *options) == 0
        of_good = metrics.read_text()
        assert re.search(r"^kafka_replica_audit_last_run_exit_code\{.*\} 0\.0$", of_good, re.MULTILINE)
        assert re.search(r'^kafka_replica_audit_findings\{.*status="new"\} [1-9]', of_good, re.MULTILINE)
        assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["fail_on"] == "critical"
        assert self.audit(spark, tmp_path, "--input", str(hollow), "--run-id", "hollow", *options) == 2
        assert metrics.read_text() == of_good
        said = capsys.readouterr().out
        assert "Exit code 2" in said
        assert "resolved" not in said
        assert "no-replicas" in {row["code"] for row in read(tmp_path / "warehouse", INPUT_ERRORS, run_id="hollow")}
        assert cli.main(["report", "--warehouse", str(tmp_path / "warehouse"), "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["run_id"] == "good"

    def test_nothing_compared_is_3_and_says_so(self, ends: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        alone = tmp_path / "alone"
        shutil.copytree(SAMPLE / "clean-in-sync" / "broker-1", alone / "broker-1", ignore=shutil.ignore_patterns("__cluster_metadata-0"))
        out = tmp_path / "out.json"
        assert ends("--input", str(alone), "--topics", "epochs", "--json", str(out)) == 3
        assert "Exit code 3: nothing is known: " in capsys.readouterr().out
        report = json.loads(out.read_text(encoding="utf-8"))
        assert (report["exit_code"], report["compared_followers"]) == (3, 0)

    def test_brokers_that_the_metadata_names_are_missed(self, ends: Callable[..., int], tmp_path: Path) -> None:
        partial = tmp_path / "partial"
        shutil.copytree(SAMPLE / "clean-in-sync", partial)
        shutil.rmtree(partial / "broker-3")
        (partial / "cluster-metadata.json").unlink()
        assert ends("--input", str(partial), "--topics", "epochs", "--json", str(tmp_path / "out.json")) == 3
        problems = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["problems"]
        (row,) = [row for row in problems if row["code"] == "brokers-not-in-input"]
        assert "broker 3, but the input has only 1, 2" in row["detail"]

    def test_one_cluster_twice_is_2_naming_both(self, ends: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(SAMPLE / "multi-round", copy)
        assert ends("--input", str(copy), "--input", str(SAMPLE / "multi-round")) == 2
        error = capsys.readouterr().err
        assert str(copy) in error
        assert str(SAMPLE / "multi-round") in error


def test_a_warehouse_that_is_something_else_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "audit_runs").mkdir()
    (tmp_path / "audit_runs" / "part.parquet").write_bytes(b"not ours")
    with pytest.raises(UsageError, match="audit_runs"):
        run(spark, tmp_path, "one", SAMPLE / "multi-round")
