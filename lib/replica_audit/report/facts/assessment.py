"""What a run amounts to: which finding is the worst, what keeps it from an all-clear, and its exit code; the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType

from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.codes import Severity
from replica_audit.rows.starts import COSTLY, BrokerStart, StartOutcome

SHOWN_PROBLEMS = 20
SEVERITY_NAMES = [str(severity) for severity in Severity]
VERDICTS_BY_LOSS = [str(Verdict.COMMITTED_LOSS), *(str(verdict) for verdict in Verdict if verdict is not Verdict.COMMITTED_LOSS)]
CODES_BY_LOSS = [str(PartitionCode.OFFLINE_PARTITION), *VERDICTS_BY_LOSS, *(str(code) for code in PartitionCode)]


def by_verdict(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts of followers, worst verdict first, without those that nobody has."""
    return {str(verdict): counts[verdict] for verdict in Verdict if counts.get(verdict)}


def labels(paths: Mapping[str, PurePath]) -> dict[str, str]:
    """For each cluster the shortest piece of its path that no other one shares, without what all end in.

    Args:
        paths: of the clusters' roots, by cluster id; where two are the same, they are labelled by them all the same.
    """
    parts = {cluster: path.parts for cluster, path in paths.items()}
    while len(parts) > 1 and len({one[-1:] for one in parts.values()}) == 1 and all(len(one) > 2 for one in parts.values()):
        parts = {cluster: one[:-1] for cluster, one in parts.items()}
    depth, longest = 1, max(map(len, parts.values()), default=1)
    while depth < longest and len({one[-depth:] for one in parts.values()}) < len(parts):
        depth += 1
    return {cluster: str(PurePath(*one[-depth:])) for cluster, one in parts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """What of the input was not read, or not as a whole, and whose clean verdicts rest on a guess.

    `unread` counts problems by their codes (`model.problem_codes`), `first_unread` is the path of the first by its name. `guessed_leaders`
    counts clean followers of a leader that is only inferred, `keys_may_differ` those of a compacted partition that an unclean election or a
    truncation has touched, and whose keys were not compared. `unknown_topic_ids`: replicas that a broker sets aside, unless the copy lacks
    their partition.metadata by mistake. `undated_leaders`: clean followers, not identical, of a leader whose epoch is unknown: nothing
    shows that it led when the logs were copied.
    """

    unread: Mapping[str, int] = field(default_factory=dict)
    first_unread: str = ""
    guessed_leaders: int = 0
    keys_may_differ: int = 0
    unknown_topic_ids: int = 0
    undated_leaders: int = 0

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.unread or self.guessed_leaders or self.keys_may_differ or self.unknown_topic_ids or self.undated_leaders)


NO_DOUBTS = Doubts()


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
