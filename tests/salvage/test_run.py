"""A salvage as a whole: its figures are the tables', it goes on after a kill, overwrites nothing, and leaves other folders alone."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from replica_audit.errors import OutputError, UsageError
from replica_audit.formats.salvage.saved_file import outcome_of, put_in_place
from replica_audit.report import salvage_report
from replica_audit.salvage.output import file_name
from tests.faults.power_cuts import DAMAGES
from tests.formats import kafka_files as kf
from tests.formats import record_files as rf
from tests.formats.rights import as_nobody, open_to_all
from tests.house.checkout import ROOT
from tests.salvage.made import FOLLOWER, LEADER, audited, lines, replica, rows, saved, with_epoch
from tests.salvage.test_made_logs import COMMON, diverged

SAMPLE = ROOT / "tests" / "data" / "sample"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def many_segments(root: Path, count: int = 12, records: int = 20) -> Path:
    """A follower with a tail of so many segments."""
    tails = [
        with_epoch(1, *(rf.batch(10 + at * records + n, (b"k%d" % n, b"%d-%d" % (at, n))) for n in range(records))) for at in range(count)
    ]
    replica(root, LEADER, "orders", [(0, 0), (2, 10)], [*COMMON, *with_epoch(2, rf.batch(10, (b"leader", b"x")))])
    return replica(root, FOLLOWER, "orders", [(0, 0), (1, 10)], COMMON, *tails)


@pytest.mark.parametrize("cluster", sorted(path.name for path in SAMPLE.iterdir()))
def test_every_removed_record_of_the_sample_is_saved(tmp_path: Path, cluster: str) -> None:
    before = tree(SAMPLE / cluster)
    run = audited(SAMPLE / cluster)
    verdicts = run.tables.arrow("replica_verdicts").to_pylist()  # type: ignore[union-attr]
    removed = {(row["topic"], row["partition"], row["follower_id"]): row["removed_records"] for row in verdicts if row["removed_records"]}
    found = saved(run, tmp_path / "out")
    assert {(one.cut.topic, one.cut.partition, one.cut.broker_id): one.record_count + one.control_count for one in found.cuts} == removed
    held = Counter((row["topic"], row["partition"], row["broker_id"]) for row in rows(tmp_path / "out"))
    assert held == {(one.cut.topic, one.cut.partition, one.cut.broker_id): one.record_count for one in found.cuts if one.record_count}
    assert found.exit_code == 0
    assert tree(SAMPLE / cluster) == before


def test_a_cluster_in_which_nothing_is_cut_says_so(tmp_path: Path) -> None:
    found = saved(audited(SAMPLE / "clean-in-sync"), tmp_path / "out")
    assert (found.cuts, found.exit_code) == ((), 0)
    document = (tmp_path / "out" / "SALVAGE.md").read_text()
    assert "No truncation is known in run" in document
    assert "eplay" not in document, "nothing to be read before nothing is replayed"
    assert "SALVAGE.md" not in salvage_report.summary(found)


_KILLED = """
import os, signal, sys
from pathlib import Path
from replica_audit.formats.salvage import saved_file
from tests.salvage.made import audited, saved

place, left = saved_file.put_in_place, [int(sys.argv[3])]

def put(made, path):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    place(made, path)

saved_file.put_in_place = put
saved(audited(Path(sys.argv[1])), Path(sys.argv[2]), is_audited_anew=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 5, 11])
def test_a_salvage_that_was_killed_goes_on(tmp_path: Path, after: int) -> None:
    many_segments(tmp_path / "in")
    whole = saved(audited(tmp_path / "in"), tmp_path / "whole", is_audited_anew=True)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}"}
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "in"), str(tmp_path / "out"), str(after)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    records = tmp_path / "out" / "records"
    done = {path.name: path.stat().st_mtime_ns for path in records.glob("*.parquet")}
    assert len(done) == after
    assert not (tmp_path / "out" / "SALVAGE.md").exists()
    time.sleep(0.01)
    found = saved(audited(tmp_path / "in"), tmp_path / "out", is_audited_anew=True)
    assert {name: (records / name).stat().st_mtime_ns for name in done} == done
    assert rows(tmp_path / "out") == rows(tmp_path / "whole")
    assert (found.saved, found.replayed) == (whole.saved, whole.replayed) == (240, 240)
    assert not list((tmp_path / "out").rglob(".*unfinished"))
    again = saved(audited(tmp_path / "in"), tmp_path / "out", is_audited_anew=True)
    assert again.saved == 240
    assert (
        tree(tmp_path / "out" / "replay") == tree(tmp_path / "whole" / "replay")
        or len(lines(tmp_path / "out", "orders-0.console.txt")) == 240
    )


def test_a_killed_replay_is_made_again(tmp_path: Path) -> None:
    many_segments(tmp_path / "in")
    run = audited(tmp_path / "in")
    saved(run, tmp_path / "out")
    replay = tmp_path / "out" / "replay"
    (replay / ".orders-0.outcome.json").unlink()
    assert saved(run, tmp_path / "out").replayed == 240
    assert len(lines(tmp_path / "out", "orders-0.console.txt")) == 240


def test_what_a_power_cut_left_of_a_salvage_is_named_or_made_again(tmp_path: Path) -> None:
    many_segments(tmp_path / "in", count=2)
    run, out, kept = audited(tmp_path / "in"), tmp_path / "out", tmp_path / "kept"
    saved(run, out)
    whole = tree(out)
    shutil.copytree(out, kept)
    for name in whole:
        for damage, strike in DAMAGES.items():
            shutil.rmtree(out)
            shutil.copytree(kept, out)
            strike(out / name)
            try:
                saved(run, out)
            except (OutputError, UsageError) as error:
                assert str(out) in str(error), (name, damage)
                assert "\n" not in str(error), (name, damage)
                assert ("move it away" if name.startswith("records/") else "give ") in str(error), (name, damage)
            else:
                assert tree(out) == whole, (name, damage)


def test_a_salvage_that_was_moved_is_gone_on_with(tmp_path: Path) -> None:
    many_segments(tmp_path / "in", count=2)
    run = audited(tmp_path / "in")
    whole = saved(run, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "moved")
    assert saved(run, tmp_path / "moved").partitions == whole.partitions


def test_what_could_not_be_read_is_saved_by_the_next_salvage(tmp_path: Path) -> None:
    path = many_segments(tmp_path / "in", count=2)
    run, segment = audited(tmp_path / "in"), sorted(path.glob("*.log"))[1]
    segment.rename(tmp_path / "aside")
    found = saved(run, tmp_path / "out")
    assert found.exit_code == 3
    assert [(lost.code, lost.path) for _cut, lost in found.unsaved] == [("not-in-the-inputs", str(segment))]
    (tmp_path / "aside").rename(segment)
    assert saved(run, tmp_path / "out").exit_code == 0
    assert len(lines(tmp_path / "out", "orders-0.console.txt")) == 40


@pytest.mark.parametrize("whose", [FOLLOWER, LEADER])
def test_files_that_are_not_the_audited_ones_are_refused(tmp_path: Path, whose: int) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    run = audited(tmp_path / "in")
    (log,) = (tmp_path / "in" / f"broker-{whose}").rglob("*.log")
    log.write_bytes(log.read_bytes() + with_epoch(3, rf.batch(60, (b"more", b"x")))[0])
    found = saved(run, tmp_path / "out")
    assert found.saved == 0
    assert found.exit_code == 3
    assert [(lost.code, lost.first_offset, lost.last_offset) for _cut, lost in found.unsaved] == [("changed", 10, 10)]
    assert "audit again" in (tmp_path / "out" / "SALVAGE.md").read_text()
    assert not list((tmp_path / "out" / "replay").glob("*.txt"))


def test_of_a_moved_copy_the_records_are_saved_as_of_the_audited_one(tmp_path: Path) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    run = audited(tmp_path / "in")
    shutil.move(tmp_path / "in", tmp_path / "moved")
    with pytest.raises(UsageError, match="nothing to audit"):
        saved(run, tmp_path / "out")
    assert saved(run, tmp_path / "out", inputs=(str(tmp_path / "moved"),)).saved == 1


def test_a_replica_that_is_not_in_the_inputs_is_told(tmp_path: Path) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    run = audited(tmp_path / "in")
    shutil.rmtree(tmp_path / "in" / f"broker-{FOLLOWER}" / "data" / "orders-0")
    found = saved(run, tmp_path / "out")
    assert [(lost.code, lost.record_count) for _cut, lost in found.unsaved] == [("not-in-the-inputs", 1)]
    assert found.exit_code == 3


def test_text_and_what_was_collected_have_no_records(tmp_path: Path) -> None:
    from replica_audit import cli

    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    for broker in (LEADER, FOLLOWER):
        where = str(tmp_path / "in" / f"broker-{broker}" / "data")
        assert cli.main(["collect", "--log-dir", where, "--output", str(tmp_path / "collected")]) == 0
    found = saved(audited(tmp_path / "collected"), tmp_path / "out")
    assert [(lost.code, lost.first_offset, lost.last_offset, lost.record_count) for _cut, lost in found.unsaved] == [
        ("no-records", 10, 10, 1)
    ]
    assert found.exit_code == 3
    shutil.rmtree(tmp_path / "collected" / f"broker-{FOLLOWER}")
    shutil.copytree(tmp_path / "in" / f"broker-{FOLLOWER}", tmp_path / "collected" / f"broker-{FOLLOWER}")
    found = saved(audited(tmp_path / "collected"), tmp_path / "of one")
    assert [(row["on_leader"], row["kept_back"]) for row in rows(tmp_path / "of one")] == [("unknown", "leader-unknown")]
    assert (found.saved, found.replayed, found.exit_code) == (1, 0, 0)


@pytest.mark.parametrize("place", ["", "broker-1", "broker-2/data/orders-0/deep", "link"])
def test_nothing_is_written_to_an_input(tmp_path: Path, place: str) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    (tmp_path / "link").symlink_to(tmp_path / "in" / "broker-1")
    output = tmp_path / "link" / "out" if place == "link" else tmp_path / "in" / place
    before = tree(tmp_path / "in")
    with pytest.raises(UsageError, match="nothing may be written there"):
        saved(audited(tmp_path / "in"), output)
    assert tree(tmp_path / "in") == before


def test_folders_of_others_and_of_other_salvages_are_refused(tmp_path: Path) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    run = audited(tmp_path / "in")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        saved(run, tmp_path / "mine")
    with pytest.raises(UsageError, match="not a directory"):
        saved(run, tmp_path / "mine" / "thesis.txt")
    saved(run, tmp_path / "out")
    before = tree(tmp_path / "out")
    with pytest.raises(UsageError, match="replay_also"):
        saved(run, tmp_path / "out", asked_for=("open",))
    with pytest.raises(UsageError, match="run_id"):
        saved(audited(tmp_path / "in"), tmp_path / "out", is_audited_anew=True)
    assert tree(tmp_path / "out") == before


def test_a_file_of_the_same_name_is_not_overwritten(tmp_path: Path) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    saved(audited(tmp_path / "in"), tmp_path / "out", is_audited_anew=True)
    before = tree(tmp_path / "out" / "records")
    diverged(tmp_path / "in", rf.batch(10, (b"another", b"1"), (b"log", b"1")))
    with pytest.raises(OutputError, match="holds what was saved from other files"):
        saved(audited(tmp_path / "in"), tmp_path / "out", is_audited_anew=True)
    assert tree(tmp_path / "out" / "records") == before
    (path,) = (tmp_path / "out" / "records").glob("*.parquet")
    path.write_bytes(b"something else")
    with pytest.raises(OutputError, match="not a file of a salvage"):
        saved(audited(tmp_path / "in"), tmp_path / "out", is_audited_anew=True)


def test_an_output_that_cannot_be_written_is_an_error_that_says_so() -> None:
    with open_to_all() as folder:
        diverged(folder / "in", rf.batch(10, (b"a", b"1")))
        (folder / "closed").mkdir(mode=0o555)
        run = audited(folder / "in")
        with pytest.raises(OutputError, match="cannot be written: Permission denied; free some space, or give an --output"):
            as_nobody(lambda: saved(run, folder / "closed" / "out"))


def test_where_there_are_no_links_files_are_renamed_and_none_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_made: Path, _path: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for content in ("first", "second"):
        (tmp_path / "made").write_text(content)
        if content == "first":
            put_in_place(tmp_path / "made", tmp_path / "file")
        else:
            with pytest.raises(FileExistsError):
                put_in_place(tmp_path / "made", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "first"


HOSTILE = ["../../escape", "a/b", "..", ".", "x" * 249, "a'b\"c`d$(touch x)", "new\nline", "-rf", "ünïcode", "%2E%2E", "CON:*?"]


@pytest.mark.parametrize("topic", HOSTILE)
def test_names_of_files_stay_in_their_folder(topic: str) -> None:
    name = file_name(topic, 7)
    assert "/" not in name
    assert name.isascii()
    assert name.isprintable()
    assert not name.startswith(".")
    assert len(f".{name}.broker-2147483647.00000000000000000000.parquet.unfinished") < 250
    assert "$" not in name
    assert "'" not in name


def test_names_of_files_are_different_for_different_partitions() -> None:
    long = [f"{'x' * 248}{end}" for end in "ab"]
    names = [file_name(topic, number) for topic in (*HOSTILE, *long, "x-1", "x") for number in (0, 10)]
    assert len(set(names)) == len(names)


def test_hostile_names_are_quoted_everywhere(tmp_path: Path) -> None:
    """A directory on disk can be called anything but have a slash in it."""
    topic = "a'`$(touch pwned)`\n| b"
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")), topic=topic)
    found = saved(audited(tmp_path / "in"), tmp_path / "out")
    assert found.saved == 1
    text = (tmp_path / "out" / "SALVAGE.md").read_text()
    assert "is not a topic that Kafka allows" in text
    (row,) = [line for line in text.split("\n") if "| 10..10 |" in line]
    assert row.replace("\\|", "").count("|") == 10
    assert all(path.resolve().is_relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*"))


def test_no_character_of_a_name_is_markdown(tmp_path: Path) -> None:
    topic = "<b>[x](javascript:1)_y_|`z`"
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")), topic=topic)
    text = salvage_report.document(saved(audited(tmp_path / "in"), tmp_path / "out"))
    prose = text[: text.index("```sh")] + text[text.rindex("```") :]
    assert "`<b>[x](javascript:1)_y_\\|\\x60z\\x60-0`" in prose
    assert "javascript" not in re.sub(r"`[^`\n]*`", "", prose), "outside of code"


def test_every_file_says_what_came_of_it(tmp_path: Path) -> None:
    diverged(tmp_path / "in", rf.batch(10, (b"a", b"1")))
    saved(audited(tmp_path / "in"), tmp_path / "out")
    (path,) = (tmp_path / "out" / "records").glob("*.parquet")
    assert '"record_count":1' in (outcome_of(path) or "")
    assert kf.TOPIC_ID
