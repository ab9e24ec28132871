"""What of a partition could be scanned and not be read a second time, told once for each file, whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import ParamSpec, TypeVar

from replica_audit.partition.known.known_partition import UnreadBatchesError
from replica_audit.rows.runs import ReportedProblem

_P = ParamSpec("_P")
_T = TypeVar("_T")


class UnreadBatches:
    """The files that could not be read again."""

    def __init__(self) -> None:
        """None yet."""
        self._found: dict[tuple[int, str], ReportedProblem] = {}

    def noted(self, read: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
        """A way to read that raises what it raises, and has it noted."""

        def reading(*arguments: _P.args, **named: _P.kwargs) -> Iterator[_T]:
            try:
                yield from read(*arguments, **named)
            except UnreadBatchesError as error:
                self._found.setdefault((error.broker_id, error.problem.path), ReportedProblem.of(error.broker_id, error.problem))
                raise

        return reading

    def problems(self, told: Collection[ReportedProblem]) -> list[ReportedProblem]:
        """One for each file, by broker and path; none of what the scans have told."""
        known = {(one.broker_id, one.path, one.code) for one in told}
        return [one for _place, one in sorted(self._found.items()) if (one.broker_id, one.path, one.code) not in known]
