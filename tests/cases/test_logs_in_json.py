"""Logs as systems that collect them export them, as JSON: read, or told that they were not."""

from __future__ import annotations

import io
import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replica_audit.formats.server_log.events import events
from replica_audit.storage.inputs.sources import discover
from tests.support import in_process

CASE = Path(__file__).resolve().parents[1] / "data" / "cases" / "three-alike"
LOG = "[UnifiedLog partition=pay-0, dir=/var/lib/kafka/data] "
Line = tuple[int, int, str]  # broker, second, message
Row = dict[str, Any]
LINES: list[Line] = [
    (2, 1, "[KafkaServer id=2] started (kafka.server.KafkaServer)"),
    (3, 2, "[KafkaServer id=3] started (kafka.server.KafkaServer)"),
    (3, 6, LOG + 'Truncating pay-0 to offset 80 below high watermark 100 said "it" (kafka.log.UnifiedLog)'),
    (3, 7, LOG + "Truncating to offset 80 (kafka.log.UnifiedLog)"),
]
MS = 1780300800000


def _text(line: Line) -> str:
    return f"[2026-06-01 10:00:{line[1]:02d},000] WARN {line[2]}"


def _iso(line: Line) -> str:
    return f"2026-06-01T08:00:{line[1]:02d}.000Z"


def _bytes(line: Line) -> dict[str, Any]:
    is_plain = line[1] < 3
    message: Any = _text(line) if is_plain else list(b"\x1b[33m" + _text(line).encode() + b"\x1b[0m")
    return {"__REALTIME_TIMESTAMP": str((MS + line[1] * 1000) * 1000), "_HOSTNAME": f"kafka{line[0]}", "_PID": "771", "MESSAGE": message}


def _loki(lines: list[Line]) -> Any:
    streams = [
        {
            "stream": {"pod": f"kafka-{b}", "job": "kafka"},
            "values": [[f"{MS + s * 1000}000000", _text((o, s, m))] for o, s, m in lines if o == b],
        }
        for b in (2, 3)
    ]
    return {"status": "success", "data": {"resultType": "streams", "result": streams, "stats": {"summary": {"bytes": 7}}}}


def _google(line: Line) -> Any:
    labels = {"type": "k8s_container", "labels": {"pod_name": f"kafka-{line[0]}", "container_name": "kafka"}}
    payload: dict[str, Any] = {"textPayload": _text(line)} if line[1] % 2 else {"jsonPayload": {"message": _text(line), "level": "WARN"}}
    return {"insertId": "a1", **payload, "resource": labels, "timestamp": _iso(line)}


def _elastic(line: Line) -> Any:
    source = {"@timestamp": _iso(line), "message": _text(line), "kubernetes": {"pod": {"name": f"kafka-{line[0]}"}}, "tags": ["a", "b"]}
    return {"_index": "logs", "_id": "x", "_score": None, "_source": source, "sort": [MS + line[1] * 1000]}


EXPORTS: dict[str, Callable[[list[Line]], Any]] = {
    "CloudWatch get-log-events": lambda lines: {
        "events": [{"timestamp": MS + one[1] * 1000, "message": _text(one), "ingestionTime": MS} for one in lines],
        "nextForwardToken": "f/1",
    },
    "CloudWatch filter-log-events": lambda lines: {
        "events": [{"logStreamName": f"kafka-{one[0]}", "timestamp": MS + one[1] * 1000, "message": _text(one)} for one in lines],
        "searchedLogStreams": [],
    },
    "CloudWatch Insights": lambda lines: {
        "results": [
            [{"field": "@timestamp", "value": _iso(one)}, {"field": "@message", "value": _text(one)}, {"field": "@ptr", "value": "x"}]
            for one in lines
        ]
    },
    "Elasticsearch": lambda lines: {"took": 1, "hits": {"total": {"value": 4}, "hits": [_elastic(one) for one in lines]}},
    "Loki": _loki,
    "Grafana": lambda lines: [
        {"line": _text(one), "timestamp": f"{MS + one[1] * 1000}000000", "fields": {"pod": f"kafka-{one[0]}"}} for one in lines
    ],
    "Datadog": lambda lines: {
        "data": [{"id": "A", "type": "log", "attributes": {"host": f"kafka-{one[0]}", "message": _text(one)}} for one in lines],
        "meta": {},
    },
    "Google": lambda lines: [_google(one) for one in lines],
    "Splunk": lambda lines: {"results": [{"_raw": _text(one), "host": f"kafka-{one[0]}", "_time": _iso(one)} for one in lines]},
    "Azure Monitor": lambda lines: {
        "tables": [{"name": "PrimaryResult", "columns": [{"name": "LogMessage"}], "rows": [[_iso(one), _text(one)] for one in lines]}]
    },
    "journald": lambda lines: [_bytes(one) for one in lines],
}
LAYOUTS: dict[str, Callable[[Any], str]] = {
    "pretty": lambda document: json.dumps(document, indent=2),
    "one line": json.dumps,
    "compact": lambda document: json.dumps(document, separators=(",", ":")),
    "tabs, escaped": lambda document: json.dumps(document, indent="\t").replace("[Unified", "\\u005bUnified").replace("/", "\\/"),
}


def _audited(root: Path, name: str, text: str) -> dict[str, list[Row]]:
    shutil.copytree(CASE, root)
    (root / name).write_text(text, encoding="utf-8")
    return in_process.audit(root)


def _said(tables: dict[str, list[Row]]) -> list[tuple[Any, ...]]:
    return [(row["broker_id"], row["truncation_offset"], row["end_offset"], row["logged_at"]) for row in tables["logged_incidents"]]


def _codes(tables: dict[str, list[Row]]) -> list[tuple[str, str]]:
    return [(row["kind"], row["code"]) for row in tables["problems"]]


CUT = [(3, 80, 100, "2026-06-01 10:00:06,000")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("export", EXPORTS)
def test_of_one_broker(tmp_path: Path, export: str, layout: str) -> None:
    document = EXPORTS[export](LINES[1:])
    for root, name in (("folder", "broker-3/export.json"), ("beside", "export.json")):
        tables = _audited(tmp_path / root, name, LAYOUTS[layout](document))
        assert _said(tables) == CUT
        assert not _codes(tables)


@pytest.mark.parametrize("reverse", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("export", EXPORTS)
def test_of_several_brokers(tmp_path: Path, export: str, *, reverse: bool) -> None:
    tables = _audited(tmp_path / "cluster", "export.json", json.dumps(EXPORTS[export](LINES[::-1] if reverse else LINES), indent=1))
    if export in ("CloudWatch get-log-events", "CloudWatch Insights", "Azure Monitor"):  # they do not say of which it is
        assert (_said(tables), _codes(tables)) == ([], [("server.log", "unknown-broker")])
    else:
        assert (_said(tables), _codes(tables)) == (CUT, [])


@pytest.mark.parametrize("more", [0, 70_000, 900_000, 2_000_000])
@pytest.mark.parametrize("document", [True, False], ids=["one document", "a line for each"])
def test_however_long_a_line_is(tmp_path: Path, more: int, *, document: bool) -> None:
    lines: list[Line] = [*LINES[1:2], (3, 4, "x" * more), *LINES[2:]]
    records = [{"message": _text(one), "time": _iso(one)} for one in lines]
    text = json.dumps({"hits": records}) if document else "\n".join(map(json.dumps, records))
    tables = _audited(tmp_path / "cluster", "broker-3/export.json", text)
    assert _said(tables) == CUT
    assert _codes(tables) == ([("server.log", "line-cut")] if more > 1 << 20 else [])


def test_a_long_line_of_text_is_told(tmp_path: Path) -> None:
    text = "\n".join([_text(LINES[1]), "kafka-3 | " + json.dumps([{"message": _text(one) + "x" * 700_000} for one in LINES[1:]])])
    assert _codes(_audited(tmp_path / "cluster", "broker-3/export.txt", text)) == [("server.log", "line-cut")]


def test_a_document_that_ends_early_is_told(tmp_path: Path) -> None:
    text = json.dumps(EXPORTS["Elasticsearch"](LINES[1:]), indent=1)
    for end in (len(text) - 3, text.rindex("WARN")):
        tables = _audited(tmp_path / str(end), "broker-3/export.json", text[:end])
        assert _said(tables) == CUT
        assert _codes(tables) == [("server.log", "line-cut")]


@pytest.mark.parametrize(
    "document", [{"lines": [_text(one) for one in LINES]}, [[_text(one)] for one in LINES], {"a": {"x": _text(LINES[1])}}]
)
def test_a_shape_that_is_not_read_is_told(tmp_path: Path, document: Any) -> None:
    tables = _audited(tmp_path / "cluster", "export.json", json.dumps(document, indent=1))
    assert (_said(tables), _codes(tables)) == ([], [])
    assert [problem.code for _, problem in discover([str(tmp_path / "cluster")]).problems] == ["unusable-log"]


def test_other_json_beside_the_brokers_is_nothing(tmp_path: Path) -> None:
    told = {"services": {"kafka-1": {"image": "apache/kafka:4.2.0"}}, "message": "see kafka.server.KafkaServer", "time": _iso(LINES[0])}
    tables = _audited(tmp_path / "cluster", "compose.json", json.dumps({**told, "message": "up"}))
    assert (_said(tables), _codes(tables), discover([str(tmp_path / "cluster")]).problems) == ([], [], [])


@pytest.mark.slow
@pytest.mark.nightly
def test_memory_is_bounded() -> None:
    document = b'{"events": [' + b",".join(json.dumps({"message": "x" * 500, "n": n}).encode() for n in range(20_000)) + b"]"
    stream = io.BytesIO(document + b', "big": "' + b"y" * 20_000_000)
    tracemalloc.start()
    assert not list(events(stream))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000
