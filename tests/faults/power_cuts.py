"""What a power cut leaves of the files that a run wrote: each of them gone, empty, torn or zeros, at its end or after it.

By hand, for the two states of a warehouse before and after an audit: `python -m tests.faults.power_cuts BEFORE AFTER`.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from replica_audit.errors import UsageError
from replica_audit.past.report import report_of
from replica_audit.past.run import PastRun
from replica_audit.report.facts.run_report import Report
from replica_audit.storage.warehouse.reader import WarehouseTables


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _half_zeros(path: Path) -> None:
    half = path.stat().st_size // 2
    path.write_bytes(bytes(half) + path.read_bytes()[half:])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "torn": _torn,
    "zeros": _zeros,
    "half zeros": _half_zeros,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One power cut: `lost` are files that were never written, `file` the one that is damaged."""

    damage: str
    file: str
    lost: tuple[str, ...] = ()

    def strike(self, warehouse: Path) -> None:
        """Leave of a warehouse what the cut leaves."""
        for name in self.lost:
            (warehouse / name).unlink()
        DAMAGES[self.damage](warehouse / self.file)


def written(before: Path, after: Path) -> list[str]:
    """The files that a run wrote, in order; the log of `audit_runs` last, as in an audit."""
    new = {str(path.relative_to(after)) for path in after.rglob("*") if path.is_file()}
    new -= {str(path.relative_to(before)) for path in before.rglob("*") if path.is_file()}
    return sorted(new, key=lambda name: (name.startswith("audit_runs/"), (after / name).stat().st_mtime_ns))


def cuts(files: Sequence[str], damages: Iterable[str] = DAMAGES) -> Iterator[Cut]:
    """Every file as the last that was begun, and every file as the only one whose bytes were not on the disk."""
    for damage in damages:
        for number, name in enumerate(files):
            yield Cut(damage=damage, file=name, lost=tuple(files[number + 1 :]))
            yield Cut(damage=damage, file=name)


class Answers:
    """What `report` says of a warehouse, held against what it said before and after the run that a power cut hits."""

    def __init__(self, before: Path, after: Path, scratch: Path) -> None:
        self._after, self._scratch = after, scratch / "warehouse"
        self._right = [self._said(before), self._said(after)]

    def wrong(self, cut: Cut) -> str | None:
        """What is wrong after a cut; None: it is refused in a line that says how to get back, or answered as one of the runs was."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        shutil.copytree(self._after, self._scratch)
        cut.strike(self._scratch)
        try:
            said = self._said(self._scratch)
        except UsageError as error:
            line = str(error)
            is_told = "\n" not in line and str(self._scratch) in line and "audit again into a new warehouse" in line
            return None if is_told else f"{cut}: {line}"
        return None if said in self._right else f"{cut}: answered {said}"

    def _said(self, warehouse: Path) -> Report:
        return replace(report_of(PastRun(WarehouseTables(str(warehouse)), None)), warehouse="")


def main(arguments: Sequence[str]) -> int:
    """Strike with every cut."""
    before, after = map(Path, arguments)
    answers = Answers(before, after, Path("/tmp") / f"power-cuts-{after.name}")  # noqa: S108
    outcomes: Counter[bool] = Counter()
    for cut in cuts(written(before, after)):
        wrong = answers.wrong(cut)
        outcomes[wrong is None] += 1
        if wrong:
            print(wrong, flush=True)  # noqa: T201
    print(f"{outcomes[True]} right, {outcomes[False]} wrong")  # noqa: T201
    return int(bool(outcomes[False]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
