"""A leader-epoch-checkpoint that is malformed, short or wrong: the audit prints the lines that the broker had written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replica_audit.formats.log_dir.names import CLEAN_SHUTDOWN, EPOCH_CHECKPOINT
from tests.support import in_process

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "multi-round"
REPLICA = Path("broker-2", "data-0", "ledger-0")
NEVER = "do not delete or rename the file"


def _right() -> list[str]:
    return (SAMPLE / REPLICA / EPOCH_CHECKPOINT).read_text(encoding="utf-8").splitlines()


def _audited(tmp_path: Path, content: bytes | None, *, clean: bool = True) -> tuple[in_process.Row, list[in_process.Row]]:
    """The row of the replica whose file has this content, and the problems about the file."""
    root = tmp_path / "cluster"
    shutil.copytree(SAMPLE, root)
    file = root / REPLICA / EPOCH_CHECKPOINT
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    if clean:
        (root / REPLICA.parent / CLEAN_SHUTDOWN).write_bytes(b"")
    tables = in_process.audit(root)
    (log,) = [row for row in tables["replica_logs"] if (row["broker_id"], row["directory"]) == (2, "ledger-0")]
    others = [row for row in tables["replica_logs"] if row is not log and row["corrected_checkpoint"] is not None]
    assert not others
    return log, [problem for problem in tables["input_errors"] if problem["kind"] == EPOCH_CHECKPOINT]


def _of(lines: list[str], end: str = "\n") -> bytes:
    return "".join(f"{line}{end}" for line in lines).encode()


def _damaged() -> dict[str, tuple[bytes | None, str]]:
    version, count, *entries = _right()
    assert len(entries) > 3
    return {
        "count 1": (_of([version, "1", *entries]), "malformed"),
        "count too high": (_of([version, str(len(entries) + 1), *entries]), "malformed"),
        "an entry less than announced": (_of([version, count, *entries[:-1]]), "malformed"),
        "line ends and a blank line": (_of([version, count, *entries, ""], "\r\n"), "malformed"),
        "a letter in a number": (_of([version, count, *entries[:-1], entries[-1].replace(" ", " l")]), "malformed"),
        "an epoch above 32 bits": (_of([version, count, *entries[:-1], "4294967296 5"]), "malformed"),
        "another version": (_of(["1", count, *entries]), "malformed"),
        "zeros": (b"\x00" * 64, "malformed"),
        "no text": (b"\xfe\xed\xfa\xce\xff", "malformed"),
        "missing": (None, "checkpoint-contradicts-batches"),
        "0 bytes": (b"", "checkpoint-contradicts-batches"),
        "the version alone": (b"0\n", "checkpoint-contradicts-batches"),
        "no entries": (b"0\n0\n", "checkpoint-contradicts-batches"),
        "the last epoch missing": (_of([version, str(len(entries) - 1), *entries[:-1]]), "checkpoint-contradicts-batches"),
        "the first epoch missing": (_of([version, str(len(entries) - 1), *entries[1:]]), "checkpoint-contradicts-batches"),
        "in reverse": (_of([version, count, *reversed(entries)]), "checkpoint-out-of-order"),
    }


@pytest.mark.parametrize("name", list(_damaged()))
def test_the_lines_that_the_broker_had_written_are_told(name: str, tmp_path: Path) -> None:
    content, code = _damaged()[name]
    log, problems = _audited(tmp_path, content)
    assert log["corrected_checkpoint"] == _of(_right()).decode()
    assert {problem["code"] for problem in problems} == {code}
    for problem in problems:
        for part in ("while the broker is stopped", "the plan (--plan DIR) writes", f"'{_right()[-1]}'", "the replica's batches", NEVER):
            assert part in problem["remedy"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_of(_right()), id="the file itself"),
        pytest.param(_of(_right())[:-1], id="no line end"),
        pytest.param(_of(_right(), "\r\n"), id="line ends of another system, which Kafka takes"),
        pytest.param(_of(["+0", *_right()[1:]]), id="a sign"),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_file_that_a_broker_loads_rightly_is_left_alone(content: bytes, clean: bool, tmp_path: Path) -> None:
    log, problems = _audited(tmp_path, content, clean=clean)
    assert log["corrected_checkpoint"] is None
    assert not problems


def test_after_an_unclean_stop_recovery_makes_a_missing_table_again(tmp_path: Path) -> None:
    """The recovery point of the sample is 0 or in the first segment, so every batch is read again."""
    log, problems = _audited(tmp_path, None, clean=False)
    assert (log["checkpoint_state"], log["corrected_checkpoint"], problems) == ("missing", None, [])


def test_lines_out_of_order_that_a_broker_heals_to_the_right_table_need_nothing(tmp_path: Path) -> None:
    version, count, first, second, *others = _right()
    content = _of([version, str(int(count) + 2), first, "900 2", first, second, *others])
    _log, problems = _audited(tmp_path, content)
    assert {problem["code"] for problem in problems} == {"checkpoint-out-of-order"}
    assert {problem["remedy"] for problem in problems} == {
        "none needed: the table that a broker loads from these lines agrees with the batches"
    }


def test_where_a_batch_is_damaged_the_replica_is_fetched_anew(tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(SAMPLE, root)
    (root / REPLICA / EPOCH_CHECKPOINT).write_bytes(b"0\n1\n0 0\n2 17\n")
    (root / REPLICA.parent / CLEAN_SHUTDOWN).write_bytes(b"")
    segment = max((root / REPLICA).glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    tables = in_process.audit(root)
    (problem,) = [problem for problem in tables["input_errors"] if problem["kind"] == EPOCH_CHECKPOINT]
    assert "do not determine a table" in problem["remedy"]
    assert "change nothing there by hand" in problem["remedy"]
    assert NEVER in problem["remedy"]
    assert not [row for row in tables["replica_logs"] if row["corrected_checkpoint"] is not None]


@pytest.mark.parametrize(("clean", "part"), [(True, "copy the replica's segments again"), (False, "none: legal after a crash")])
def test_an_entry_beyond_the_log_end(clean: bool, part: str, tmp_path: Path) -> None:
    version, count, *entries = _right()
    _log, (problem,) = _audited(tmp_path, _of([version, str(int(count) + 1), *entries, "900 100000"]), clean=clean)
    assert problem["code"] == "checkpoint-beyond-log-end"
    assert problem["remedy"].startswith(part)


def test_a_line_that_the_batches_contradict_does_not_outdate_the_metadata(tmp_path: Path) -> None:
    """Broker 1 is down, and its file has an epoch at an offset whose batch is of another: it knows of no election."""
    root = shutil.copytree(SAMPLE.parent / "committed-loss", tmp_path / "cluster")
    file = root / "broker-1" / "data-0" / "billing-0" / EPOCH_CHECKPOINT
    file.write_bytes(b"0\n2\n0 0\n7 12\n")
    tables = in_process.audit(root)
    rows = [row for row in tables["replica_verdicts"] if (row["topic"], row["partition"]) == ("billing", 0)]
    assert {(row["leader_id"], row["leader_source"]) for row in rows} == {(2, "cluster-metadata")}
    assert "metadata-outdated" not in {row["code"] for row in tables["input_errors"]}


def test_a_line_at_the_log_end_does(tmp_path: Path) -> None:
    """No batch speaks against it: its broker was elected and has written nothing yet."""
    root = shutil.copytree(SAMPLE.parent / "committed-loss", tmp_path / "cluster")
    (root / "broker-1" / "data-0" / "billing-0" / EPOCH_CHECKPOINT).write_bytes(b"0\n2\n0 0\n7 30\n")
    assert "metadata-outdated" in {row["code"] for row in in_process.audit(root)["input_errors"]}
