"""The exit code of a run: the one rule, for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.report.facts.doubts import NO_DOUBTS, Doubts
from replica_audit.report.facts.worst_first import SEVERITY_NAMES
from replica_audit.rows.starts import COSTLY, BrokerStart, StartOutcome

_NOT_COMPARED = frozenset({str(Verdict.UNREADABLE), str(Verdict.INCONCLUSIVE)})


def compared_followers(verdicts: Mapping[str, int]) -> int:
    """Followers that could be compared with their leaders, from how many have each verdict."""
    return sum(count for verdict, count in verdicts.items() if verdict not in _NOT_COMPARED)


def exit_code(
    severities: Mapping[str, int],
    verdicts: Mapping[str, int],
    acknowledged: Mapping[str, int] = MappingProxyType({}),
    *,
    starts: Mapping[str, int] = MappingProxyType({}),
    doubts: Doubts = NO_DOUBTS,
    records_unread: int = 0,
    fail_on: str,
    has_replicas: bool,
    all_inputs_read: bool,
) -> int:
    """0 every broker may be started, 1 findings at or above `fail_on` or a start that costs something, 2 nothing readable, 3 not known.

    Not known: none of these, but something not read, compared or known.

    What is acknowledged counts for none of them; what persists does, for nothing about it is mended.

    Args:
        severities: how many findings of the run, new or persisting, have each, without those that are acknowledged.
        verdicts: how many followers have each.
        acknowledged: how many acknowledged findings of the run have each code.
        starts: how many replicas have each outcome of their brokers' starts, without those that are acknowledged.
        doubts: what of the input was not read whole, and which clean verdicts rest on a guess.
        records_unread: how many clean followers have records that were to be compared, and could not be.
        fail_on: the lowest severity that counts.
        has_replicas: whether any replica was found.
        all_inputs_read: whether every input could be read.
    """
    if not has_replicas:
        return 2
    loud = SEVERITY_NAMES[: SEVERITY_NAMES.index(fail_on) + 1]
    if any(severities.get(severity) for severity in loud) or any(starts.get(outcome) for outcome in COSTLY):
        return 1
    is_doubtful = verdicts.get(str(Verdict.INCONCLUSIVE), 0) > acknowledged.get(str(Verdict.INCONCLUSIVE), 0)
    is_doubtful = is_doubtful or records_unread > 0 or bool(doubts)
    is_doubtful = is_doubtful or bool(starts.get(StartOutcome.UNKNOWN))
    return 0 if all_inputs_read and compared_followers(verdicts) and not is_doubtful else 3


def exit_code_of_start(start: BrokerStart) -> int:
    """The exit code of an answer about one broker: 0 safe, 1 a start that costs something, 3 nothing worse than not known."""
    if any(start.outcomes.get(outcome) for outcome in COSTLY):
        return 1
    return 0 if start.outcome == StartOutcome.SAFE else 3
