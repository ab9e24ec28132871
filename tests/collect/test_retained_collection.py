"""`--replace` by a collection that could not read what the replaced one has: that is kept, once, and told."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.collect import CollectRequest, CollectResult, collect
from replica_audit.errors import UsageError
from replica_audit.own_folder import MARKER
from replica_audit.storage.inputs.sources import discover
from tests.collect.collections import quietly
from tests.formats import kafka_files as kf
from tests.formats.rights import bound_by_modes, open_to_all
from tests.support import in_process

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample" / "committed-loss"
SEGMENT = f"billing-0/{0:020d}.log"
OTHER = f"billing-1/{0:020d}.log"
KEPT = ".broker-1.kept"


class Nights:
    """A broker with one log directory that is collected every night, by a user whom permission bits bind."""

    def __init__(self, parent: Path) -> None:
        self.log_dir, self.output = parent / "data-0", parent / "nightly"
        shutil.copytree(SAMPLE / "broker-1" / "data-0", self.log_dir)
        self.kept = self.output / KEPT

    def refuse(self, *names: str) -> None:
        """From now on these alone cannot be read."""
        for path in (self.log_dir, *self.log_dir.rglob("*")):
            path.chmod(0o755)
        for name in names:
            (self.log_dir / name).chmod(0)

    def next(self, *refused: str) -> CollectResult:
        self.refuse(*refused)
        request = CollectRequest(output=self.output, log_dirs=(self.log_dir,), replace=True, broker_id=1)
        return bound_by_modes(lambda: collect(request, quietly))

    def there(self) -> list[str]:
        return sorted(path.name for path in self.output.iterdir())

    def paths(self, *names: str) -> tuple[str, ...]:
        return tuple(str(self.log_dir / name) for name in names)

    def has(self, folder: Path, name: str) -> bool:
        """Whether a collection read a file: it is not among what could not be read."""
        (said,) = json.loads((folder / "manifest.json").read_text())["log_dirs"]
        return str(self.log_dir / name) not in {one["path"] for one in said["unread"]}


@pytest.fixture
def nights() -> Iterator[Nights]:
    with open_to_all() as parent:
        yield Nights(parent)


@pytest.mark.parametrize(
    "name",
    [
        SEGMENT,
        "billing-0",
        "billing-0/leader-epoch-checkpoint",
        "replication-offset-checkpoint",
        f"__cluster_metadata-0/{0:020d}-{0:010d}.checkpoint",
        "",
    ],
)
def test_what_was_read_before_and_is_refused_now(nights: Nights, name: str) -> None:
    (nights.log_dir / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint").write_bytes(b"a snapshot")
    first = nights.next()
    assert (first.exit_code, first.kept) == (0, None)
    if not name:  # a second log directory that is still there, as after a disk of two has failed
        other = shutil.copytree(nights.log_dir, nights.log_dir.parent / "data-1", ignore=shutil.ignore_patterns("*-[0-9]"))
        nights.refuse("")
        request = CollectRequest(output=nights.output, log_dirs=(nights.log_dir, other), replace=True, broker_id=1)
        second = bound_by_modes(lambda: collect(request, quietly))
    else:
        second = nights.next(name)
    assert second.exit_code == 3
    assert second.kept is not None
    assert (second.kept.folder, second.kept.is_new, second.kept.gone) == (nights.kept, True, ())
    assert second.kept.has == (str(nights.log_dir / name),)
    assert nights.there() == [KEPT, "broker-1"]
    assert nights.has(nights.kept, name)


def test_nothing_is_kept_without_need(nights: Nights) -> None:
    """All is read; or what is refused is not in the replaced collection, as a new segment or what was refused before."""
    nights.next(SEGMENT)
    assert nights.next(SEGMENT).kept is None
    kf.segment(nights.log_dir / "billing-1", 1_000, kf.batch(1_000, 9))
    assert nights.next(SEGMENT, f"billing-1/{1000:020d}.log").kept is None
    assert nights.next().kept is None
    assert nights.there() == ["broker-1"]


def test_one_is_kept_through_the_nights_of_one_trouble(nights: Nights) -> None:
    nights.next()
    before = (nights.output / "broker-1" / "manifest.json").stat().st_ino
    for number in range(3):
        kept = nights.next(SEGMENT).kept
        assert kept is not None
        assert (kept.is_new, kept.has, kept.gone, kept.replaces) == (number == 0, nights.paths(SEGMENT), (), None)
        assert (nights.kept / "manifest.json").stat().st_ino == before
        assert nights.there() == [KEPT, "broker-1"]
    again = nights.next()
    assert again.exit_code == 0
    assert again.kept is not None
    assert (again.kept.is_new, again.kept.has) == (False, ())
    assert (nights.kept / "manifest.json").stat().st_ino == before, "nobody but an operator deletes it: the disk may be another"


def test_a_later_trouble_is_not_answered_with_an_old_collection(nights: Nights) -> None:
    nights.next()
    first = nights.next(SEGMENT).kept
    nights.next()
    newest = (nights.output / "broker-1" / "manifest.json").stat().st_ino
    kept = nights.next("billing-0").kept
    assert first is not None
    assert kept is not None
    assert (kept.is_new, kept.has, kept.replaces) == (True, nights.paths("billing-0"), first.finished_at)
    assert (nights.kept / "manifest.json").stat().st_ino == newest
    assert nights.there() == [KEPT, "broker-1"]


@pytest.mark.parametrize("second", [(SEGMENT, OTHER), ("billing-0", OTHER)], ids=["the same", "more of the same folder"])
def test_a_second_trouble_while_the_first_lasts(nights: Nights, second: tuple[str, str]) -> None:
    """What only the kept one has stays; what is lost because only one is kept is told."""
    nights.next()
    nights.next(SEGMENT)
    new = f"billing-1/{1000:020d}.log"
    kf.segment(nights.log_dir / "billing-1", 1_000, kf.batch(1_000, 9))
    nights.next(SEGMENT)
    kept = nights.next(*second, new).kept
    assert kept is not None
    assert (kept.is_new, kept.has, kept.gone) == (False, nights.paths(*second), nights.paths(new))
    assert nights.has(nights.kept, SEGMENT)
    assert nights.there() == [KEPT, "broker-1"]


def test_a_run_that_is_killed_while_it_keeps_one(nights: Nights) -> None:
    """The next one completes that, wherever it was: before the renames, between them, or while the earlier kept one is removed."""
    nights.next()
    whole = shutil.copytree(nights.output / "broker-1", nights.output.parent / "whole")
    nights.next(SEGMENT)
    shutil.rmtree(nights.kept)
    aside = nights.output / ".broker-1.collecting.replaced"
    shutil.copytree(whole, aside)
    told = nights.next(SEGMENT).kept
    assert told is not None
    assert (told.is_new, told.has) == (False, nights.paths(SEGMENT))
    assert nights.there() == [KEPT, "broker-1"]
    shutil.copytree(whole, aside)
    (nights.output / ".broker-1.collecting").mkdir()
    (nights.output / ".broker-1.collecting" / MARKER).touch()
    nights.kept.rename(nights.output / ".broker-1.collecting" / KEPT)
    assert nights.next(SEGMENT).kept is not None
    assert nights.there() == [KEPT, "broker-1"]
    shutil.copytree(whole, aside)
    (aside / "manifest.json").unlink()  # killed while it removed one, which it marks first
    (aside / MARKER).touch()
    nights.next(SEGMENT)
    assert nights.there() == [KEPT, "broker-1"]


def test_what_somebody_put_there_is_not_touched(nights: Nights) -> None:
    nights.next()
    nights.kept.mkdir()
    (nights.kept / "mine").write_text("")
    with pytest.raises(UsageError, match=r"kept exists and is not a collection .* it is left alone: move it away"):
        nights.next(SEGMENT)
    assert nights.there() == [KEPT, "broker-1"]
    assert nights.has(nights.output / "broker-1", SEGMENT)


def test_what_a_user_sees(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replica_audit.collect.pace.lower_priority", lambda: None)
    ending = nights.output.parent / "ending.json"
    options = ["--log-dir", nights.log_dir, "--output", nights.output, "--replace", "--since", nights.output]

    def run() -> tuple[int, str]:
        with redirect_stderr(io.StringIO()) as told, redirect_stdout(io.StringIO()):
            return cli.main(["collect", *map(str, options), "--termination-message", str(ending)]), told.getvalue()

    assert bound_by_modes(run)[0] == 0
    assert "kept" not in json.loads(ending.read_text())
    at = json.loads((nights.output / "broker-1" / "manifest.json").read_text())["finished_at"]
    nights.refuse(SEGMENT)
    code, told = bound_by_modes(run)
    assert code == 3
    what = "it has 1 of the files or folders that could not be read; the first is"
    assert f"\nkept: {nights.kept}, the collection of {at} that was replaced: {what} {nights.log_dir}/{SEGMENT}\n" in told
    to_do = "once nobody needs it; audits leave it out, and to audit it, move it into another folder under the name broker-1"
    assert f"\ndelete {nights.kept} {to_do}\n" in told
    assert json.loads(ending.read_text())["kept"] == str(nights.kept)
    assert f"\nstill kept: {nights.kept}, the collection of {at}: {what}" in bound_by_modes(run)[1]
    nights.refuse()
    code, told = bound_by_modes(run)
    assert code == 0
    assert f"\nstill kept: {nights.kept}, the collection of {at}: it has nothing that could not be read now\n" in told


def test_an_audit_leaves_it_out_and_says_so(nights: Nights) -> None:
    for name in ("broker-2", "broker-3"):
        shutil.copytree(SAMPLE / name, nights.output / name)
    nights.next()
    before = in_process.audit(nights.output)
    nights.next(SEGMENT)
    told = {(row["path"], row["code"]) for row in problems(nights.output)}
    assert (str(nights.kept), "hidden-folder") in told
    assert len(in_process.audit(nights.output)["replica_logs"]) == len(before["replica_logs"]), "no replica is there twice"
    shutil.rmtree(nights.output / "broker-1")
    nights.kept.rename(nights.output / "broker-1")
    after = in_process.audit(nights.output)
    assert [row["verdict"] for row in after["replica_verdicts"]] == [row["verdict"] for row in before["replica_verdicts"]]


def problems(root: Path) -> list[dict[str, object]]:
    return discover([str(root)]).problem_rows()
