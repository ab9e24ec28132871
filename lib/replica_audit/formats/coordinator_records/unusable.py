"""Records of a coordinator's topic that cannot be used, and the problems that they become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from replica_audit.model import Problem

MAX_PROBLEMS = 20  # of one file; one more says how many were left out


class Unusable(NamedTuple):
    """Records that cannot be used, the one at `record_offset` or several from it on; `reason` names them."""

    record_offset: int
    code: str
    reason: str
    byte_offset: int | None = None
    line: int | None = None


class UnusableRecords:
    """What cannot be used of one file, in as many problems as one may want to read."""

    def __init__(self, path: str, kind: str, remedy: str, of_text: Mapping[str, str]) -> None:
        """Take those of the file `path`.

        Args:
            path: of the file.
            kind: of the problems.
            remedy: where `of_text` has none for a code.
            of_text: remedies by code of what is wrong with a whole file, which counts once; the first code that is found is reported.
        """
        self._path, self._kind, self._remedy, self._remedies = path, kind, remedy, of_text
        self._first: list[Unusable] = []
        self._number = 0
        self._of_text: dict[str, Unusable] = {}

    def add(self, unusable: Unusable) -> None:
        """Take one more."""
        if unusable.code in self._remedies:
            self._of_text.setdefault(unusable.code, unusable)
            return
        self._number += 1
        if self._number <= MAX_PROBLEMS:
            self._first.append(unusable)

    def problems(self) -> Iterator[Problem]:
        """What was found, some more than `MAX_PROBLEMS` at most."""
        for found in (*self._first, *[self._of_text[code] for code in self._remedies if code in self._of_text][:1]):
            yield self._problem(found.code, found.reason, found.line, found.byte_offset)
        if self._number > MAX_PROBLEMS:
            yield self._problem("more", f"{self._number - MAX_PROBLEMS} more records or batches cannot be used")

    def _problem(self, code: str, detail: str, line: int | None = None, byte_offset: int | None = None) -> Problem:
        remedy = self._remedies.get(code, self._remedy)
        return Problem(path=self._path, kind=self._kind, code=code, detail=detail, remedy=remedy, line=line, byte_offset=byte_offset)
