"""What a run ends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replica_audit.protocol.verdict import Verdict
from replica_audit.report.worst_first import SEVERITIES

_NOT_COMPARED = frozenset((str(Verdict.UNREADABLE), str(Verdict.INCONCLUSIVE)))


def compared_followers(verdicts: Mapping[str, int]) -> int:
    """Followers that could be compared with their leaders, from how many have each verdict."""
    return sum(count for verdict, count in verdicts.items() if verdict not in _NOT_COMPARED)


def exit_code(severities: Iterable[str], fail_on: str, verdicts: Mapping[str, int], *, readable: bool, complete: bool) -> int:
    """The exit code of a run, as docs/verdicts.md lists them.

    Args:
        severities: of its findings.
        fail_on: the lowest severity that makes it 1.
        verdicts: how many followers of all clusters have each verdict.
        readable: replicas were found.
        complete: every input could be read.

    Returns:
        2: nothing could be read; 1: findings at or above `fail_on`; 3: none, but some replicas or inputs could not be compared or read, or
        nothing was compared; 0: none.
    """
    if not readable:
        return 2
    if set(severities) & set(SEVERITIES[: SEVERITIES.index(fail_on) + 1]):
        return 1
    unknown = not complete or verdicts.get(str(Verdict.INCONCLUSIVE))
    return 3 if unknown or not compared_followers(verdicts) else 0
