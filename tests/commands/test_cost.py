"""`--cost`: what each mode would read, from a listing alone."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.report.cost import CRCS, DISK, HEADERS, RECORDS, Amount, costs, duration, render, size, total
from tests.house.checkout import ROOT

SAMPLE = ROOT / "tests" / "data" / "sample"
LOSS = SAMPLE / "committed-loss"
DUMPS = ROOT / "tests" / "data" / "dump-log"


@pytest.fixture(autouse=True)
def no_segment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_given: object, **_named: object) -> None:
        raise AssertionError("a segment is read")

    for name in ("stages.segments.scan_of", "stages.partitions.batches_from", "formats.replicas.segment_reader.scan_file"):
        monkeypatch.setattr(f"replica_audit.{name}", read)


def cost(capsys: pytest.CaptureFixture[str], command: str, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.main([command, "--cost", *arguments]) == 0
    return capsys.readouterr().out


def raw_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.log") if path.stem.isdigit())


@pytest.mark.parametrize("command", ["audit", "triage"])
def test_bytes_are_those_of_the_segments(capsys: pytest.CaptureFixture[str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.storage.session.session", lambda: pytest.fail("Spark is started"))
    told = cost(capsys, command, "--input", str(LOSS))
    assert f"{size(raw_bytes(LOSS))} of segments" in told
    assert re.search(r"^ *content .*" + re.escape(size(raw_bytes(LOSS))), told, re.MULTILINE)
    words = [line.split()[0] for line in told.split("What this estimate assumes")[0].splitlines() if line]
    assert [word for word in words if word in ("epochs", "content", "records")] == ["epochs", "content", "records"]
    assert "What this estimate assumes" in told


def test_an_input_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert cli.main(["triage", "--cost", "--input", str(LOSS), "--input", str(gone)]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert f"Not counted {gone}: does not exist. Remedy: check the path given to --input" in told
    assert f"{size(raw_bytes(LOSS))} of segments" in told


def test_several_clusters_come_to_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    roots = sorted(SAMPLE.iterdir())[:2]
    told = cost(capsys, "triage", *(word for root in roots for word in ("--input", str(root))))
    assert "total: " in told
    assert f"{size(sum(map(raw_bytes, roots)))} of segments" in told


def test_other_topics_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    everything = cost(capsys, "triage", "--input", str(LOSS))
    nothing = cost(capsys, "triage", "--input", str(LOSS), "--topics", "no-such-topic")
    assert everything != nothing
    assert ": 0 partitions" in nothing


def test_text_counts_as_it_is_unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = next(path for path in sorted(ROOT.rglob("tests/data/**/*.txt")) if path.read_text(errors="replace").startswith("Dumping"))
    content = source.read_bytes()
    for name, packed in (("plain", False), ("packed", True)):
        folder = tmp_path / name / "broker-1"
        folder.mkdir(parents=True)
        (folder / ("orders-0.txt.gz" if packed else "orders-0.txt")).write_bytes(gzip.compress(content) if packed else content)
    plain, packed_text = (cost(capsys, "triage", "--input", str(tmp_path / name)) for name in ("plain", "packed"))
    said = re.search(r"([\d.]+ \w+) of text of kafka-dump-log", plain)
    assert said is not None
    assert said[0] in packed_text


def test_what_was_collected_is_small(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.collect.pace.lower_priority", lambda: None)
    for broker in sorted(LOSS.glob("broker-*")):
        places = [word for folder in sorted(broker.glob("data-*")) for word in ("--log-dir", str(folder))]
        assert cli.main(["collect", *places, "--output", str(tmp_path / "out")]) == 0
    told = cost(capsys, "triage", "--input", str(tmp_path / "out"))
    parquet = sum(path.stat().st_size for path in (tmp_path / "out").rglob("segments.parquet"))
    assert f"{size(parquet)} of collections" in told
    assert "of segments," not in told


def test_what_cannot_be_audited_is_refused(tmp_path: Path) -> None:
    assert cli.main(["triage", "--cost", "--input", str(tmp_path / "nowhere")]) == 2


def test_an_estimate_is_bytes_by_rates() -> None:
    gib = 1 << 30
    amount = Amount(name="c", partitions=0, replicas=0, files=0, raw_bytes=100 * gib, compacted_bytes=gib, text_bytes=0, collected_bytes=0)
    epochs, content, records = costs(amount)
    assert (epochs.read_bytes, content.read_bytes, records.read_bytes) == (100 * gib, 100 * gib, 101 * gib)
    assert content.core_seconds - epochs.core_seconds == pytest.approx(100 * gib / CRCS - 100 * gib / HEADERS)
    assert records.core_seconds - content.core_seconds == pytest.approx(gib / RECORDS)
    assert content.disk_seconds == pytest.approx(100 * gib / DISK)
    assert total([amount, amount]).raw_bytes == 200 * gib
    assert "total" not in render([amount])


@pytest.mark.parametrize(("number", "told"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")])
def test_sizes(number: int, told: str) -> None:
    assert size(number) == told


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "under 1 s"), (30, "30 s"), (600, "10 min"), (7200, "2 h")])
def test_durations(seconds: float, told: str) -> None:
    assert duration(seconds) == told
