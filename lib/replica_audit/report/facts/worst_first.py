"""What of a run is shown, and in which order: the worst first. The rules that a summary keeps, whichever engine sorts the rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict

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
