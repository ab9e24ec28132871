"""The numbers for Prometheus: equal to the tables, always there, readable by its own parser; alert rules and dashboard ask for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.metrics import run_metrics
from replica_audit.past.run import PastRun
from replica_audit.protocol.verdict.acknowledgement import Status
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.run_report import OldestCapture
from replica_audit.report.metrics import TRUNCATION_STATES, metrics_text
from replica_audit.rows.codes import Severity

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "data" / "sample"
OFFLINE = ROOT / "tests" / "data" / "offline" / "nobody-leads"
MONITORING = ROOT / "docs" / "monitoring"
PREFIX = "kafka_replica_audit_"
Series = dict[str, dict[tuple[tuple[str, str], ...], float]]
CAPTURE = OldestCapture(broker_id=1, captured_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), days_before=2)


def series(text: str) -> Series:
    """By metric, without the prefix, the value of each set of labels."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name.removeprefix(PREFIX), {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@pytest.fixture(scope="module")
def run() -> PastRun:
    done = triage((str(SAMPLE), str(OFFLINE)), Settings(), tell=lambda _line: None)
    return PastRun(done.tables, done.run_id)


@pytest.fixture(scope="module")
def told(run: PastRun) -> Series:
    return series(metrics_text(run_metrics(run)))


@pytest.fixture(scope="module")
def all_told(run: PastRun) -> Series:
    """The same as of collections, which have two numbers more."""
    return series(metrics_text([replace(one, oldest_check=one.finished_at, oldest_capture=CAPTURE) for one in run_metrics(run)]))


def rows(run: PastRun, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in run.tables.arrow(table).to_pylist()]  # type: ignore[union-attr]


def test_numbers_are_those_of_the_tables(run: PastRun, told: Series) -> None:
    verdicts = Counter((row["cluster_id"], row["verdict"]) for row in rows(run, "replica_verdicts"))
    assert verdicts
    assert {key: value for key, value in told["followers"].items() if value} == {
        (("cluster_id", cluster), ("verdict", verdict)): count for (cluster, verdict), count in verdicts.items()
    }
    findings = Counter((row["cluster_id"], row["severity"], row["status"]) for row in rows(run, "findings"))
    assert {key: value for key, value in told["findings"].items() if value} == {
        (("cluster_id", cluster), ("severity", severity), ("status", status)): count
        for (cluster, severity, status), count in findings.items()
    }
    removed: Counter[tuple[str, str]] = Counter()
    committed: Counter[tuple[str, str]] = Counter()
    for row in rows(run, "replica_verdicts"):
        state = "removed" if row["already_truncated"] else "to_remove"
        removed[row["cluster_id"], state] += row["lost_records"] or 0
        committed[row["cluster_id"], state] += row["removed_committed"] or 0
    assert {state for (_cluster, state), count in removed.items() if count} == set(TRUNCATION_STATES)
    for name, counted in (("truncated_records", removed), ("truncated_committed_offsets", committed)):
        assert {key: value for key, value in told[name].items() if value} == {
            (("cluster_id", cluster), ("state", state)): count for (cluster, state), count in counted.items() if count
        }
    sizes: Counter[str] = Counter()
    for row in rows(run, "replica_logs"):
        sizes[row["cluster_id"]] += row["size_bytes"] or 0
    assert {key[0][1]: value for key, value in told["replica_bytes"].items()} == sizes
    problems = Counter(row["cluster_id"] for row in rows(run, "input_errors"))
    assert {key[0][1]: value for key, value in told["input_errors"].items() if value} == problems
    offline = [row["cluster_id"] for row in rows(run, "findings") if row["code"] == "offline_partition"]
    assert offline
    assert {key: value for key, value in told["partition_findings"].items() if value and ("code", "offline_partition") in key} == {
        (("cluster_id", cluster), ("code", "offline_partition")): count for cluster, count in Counter(offline).items()
    }
    for row in rows(run, "audit_runs"):
        key = (("cluster_id", row["cluster_id"]),)
        assert told["last_run_timestamp_seconds"][key] == pytest.approx(row["finished_at"].timestamp(), abs=0.001)
        assert told["last_run_exit_code"][key] == row["exit_code"] == 1
        assert told["partitions"][key] == row["partitions"]
        assert told["replicas"][key] == row["replicas"]
        assert told["followers_proven_healthy"][key] == row["proven_healthy"]
        assert 0 < told["last_run_duration_seconds"][key] < 600


def test_what_was_proven_is_not_told_of_a_run_that_did_not_count_it(run: PastRun) -> None:
    older = series(metrics_text([replace(one, proven_healthy=None) for one in run_metrics(run)]))
    assert "followers_proven_healthy" not in older


def test_what_is_0_is_told(told: Series) -> None:
    """Else an alert on it would never end."""
    clusters = {labels[0][1] for labels in told["brokers"]}
    severities = [one for one in Severity if one is not Severity.NONE]
    expected = {
        "followers": len(Verdict),
        "findings": len(severities) * (len(Status) + 1),  # and acknowledged
        "partition_findings": len(PartitionCode),
        "truncated_records": 2,
        "truncated_committed_offsets": 2,
    }
    assert len(clusters) > 2
    for name, found in told.items():
        assert len(found) == len(clusters) * expected.get(name, 1), name


def test_a_cluster_of_any_name(run: PastRun) -> None:
    (one, *_others) = run_metrics(run)
    name = 'a"b\\c\nd{e="f"} 1'
    found = series(metrics_text([replace(one, cluster_id=name)]))
    assert found["brokers"] == {(("cluster_id", name),): one.brokers}


def selectors(expression: Any) -> Iterator[Any]:
    """The vector selectors of an expression, in it however deep."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if hasattr(expression, name):
            yield from selectors(getattr(expression, name))
    for argument in getattr(expression, "args", None) or ():
        yield from selectors(argument)


def check(query: str, told: Series) -> None:
    """It is PromQL, and asks for series that are there."""
    found = list(selectors(promql_parser.parse(query.replace("$cluster", "x"))))
    assert found, query
    for one in found:
        assert one.name.startswith(PREFIX), query
        known = told[one.name.removeprefix(PREFIX)]
        values: dict[str, set[str]] = {}
        for labels in known:
            for label, value in labels:
                values.setdefault(label, set()).add(value)
        for matcher in one.matchers.matchers:
            assert matcher.name in values, query
            if matcher.name != "cluster_id":
                assert set(matcher.value.split("|")) <= values[matcher.name], query


def test_the_alert_rules_ask_for_what_is_told(all_told: Series) -> None:
    document = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["annotations"].keys() == {"summary", "description"}
        check(rule["expr"], all_told)


def test_the_dashboard_asks_for_what_is_told(all_told: Series) -> None:
    document = json.loads((MONITORING / "dashboard.json").read_text())
    panels = document["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 8
    for panel in panels:
        assert panel["description"].endswith(".")
        for target in panel["targets"]:
            check(target["expr"], all_told)
    names = {
        one.name.removeprefix(PREFIX)
        for panel in panels
        for target in panel["targets"]
        for one in selectors(promql_parser.parse(target["expr"].replace("$cluster", "x")))
    }
    assert names >= {
        "truncated_committed_offsets",
        "partition_findings",
        "findings",
        "followers",
        "last_run_timestamp_seconds",
        "input_errors",
    }


def test_every_number_is_watched(all_told: Series) -> None:
    """By a rule or a panel."""
    rules = [rule["expr"] for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    asked = [*rules, *(target["expr"].replace("$cluster", "x") for panel in panels for target in panel["targets"])]
    names = {one.name.removeprefix(PREFIX) for query in asked for one in selectors(promql_parser.parse(query))}
    assert names == all_told.keys()


def test_the_oldest_collection_is_of_collections_only(run: PastRun, told: Series) -> None:
    assert "oldest_collection_timestamp_seconds" not in told, "these are log directories"
    (one, *_others) = run_metrics(run)
    text = metrics_text([replace(one, oldest_capture=CAPTURE)])
    assert f'kafka_replica_audit_oldest_collection_timestamp_seconds{{cluster_id="{one.cluster_id}"}} 1.767323045e+09\n' in text


def test_the_oldest_check_is_of_collections_only(run: PastRun, told: Series) -> None:
    assert "oldest_crc_check_timestamp_seconds" not in told, "these are log directories"
    assert set(told["replicas_never_verified"].values()) == {0}
    (one, *_others) = run_metrics(run)
    checked = replace(one, oldest_check=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), never_checked=3)
    text = metrics_text([checked])
    labels = f'{{cluster_id="{one.cluster_id}"}}'
    assert f"kafka_replica_audit_oldest_crc_check_timestamp_seconds{labels} 1.767323045e+09\n" in text
    assert f"kafka_replica_audit_replicas_never_verified{labels} 3.0\n" in text
