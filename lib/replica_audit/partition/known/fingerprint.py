"""What the rows of a partition depend on, as a digest: where it is the same as in an earlier run, the rows are the same.

Some numbers change every night though nothing happened: when a replica was collected, when the file beside the brokers was written, how
far a copy of the metadata log reaches. No row has them, so what they decide is digested instead: which of two moments is the later one,
and by more than clocks differ; which copy of the metadata log reaches farthest. (Rows of `replica_logs` have them, and get the new ones;
rows of `sequence_gaps` depend on how long ago something was, and are not taken over.)

Two digests, because some things count only where something was found: who acknowledged it, and, where the metadata log knows the partition,
its end, which is that of the last leader's term. The *quiet* one, for partitions in which nothing was found, is without them, the *whole*
one has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter

from replica_audit.digests import digest
from replica_audit.model import Appearance
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, Moment
from replica_audit.protocol.verdict.partition_findings import CLOCKS_DIFFER_MS

# a new fact of a cluster is in both digests as it is, unless it is named here
_MOVING = frozenset({"metadata_log_end", "history", "acknowledged"})
_UNUSED = frozenset({"audited_at_ms"})  # but with --compare records, which takes nothing over, and for lines of a time yet to come
_LASTING_FACTS = attrgetter(*(one.name for one in fields(ClusterFacts) if one.name not in _MOVING | _UNUSED))
_LASTING_HISTORY = attrgetter(*(one.name for one in fields(ClusterHistory) if one.name != "end"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """What is true of a cluster.

    `lasting`: what counts for all of its partitions, as a digest; `known_findings`: who acknowledged what, as a digest. `metadata_log_end`:
    how far its farthest copy of the metadata log reaches; `log_ended`: the last batch of that copy.
    """

    lasting: str
    known_findings: str
    metadata_log_end: tuple[int, int]
    log_ended: Moment

    @classmethod
    def of(cls, facts: ClusterFacts) -> ClusterIdentity:
        """That of a cluster."""
        return cls(
            lasting=digest((_LASTING_FACTS(facts), _LASTING_HISTORY(facts.history))),
            known_findings=digest(facts.acknowledged.on_that_day),
            metadata_log_end=facts.metadata_log_end,
            log_ended=facts.history.end,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The digests of what the rows of a partition depend on.

    None where that cannot be told, or two copies are of one directory; of one that is known to be unchanged by the other, too.
    """

    whole: str | None
    quiet: str | None


UNKNOWN = Fingerprint(whole=None, quiet=None)


class SinceLastRun(StrEnum):
    """What a partition is against an earlier run, by how it looks."""

    NEW = "new"
    CHANGED = "changed"  # or nobody can tell
    UNCHANGED = "unchanged"
    GONE = "gone"


def since_last_run(now: Fingerprint | None, before: Fingerprint | None) -> SinceLastRun:
    """Compare how a partition looks with how it looked in an earlier run; None where it is not, or was not there. One of the two is given.

    What the earlier run may not be compared by is None in its fingerprint.
    """
    if now is None:
        return SinceLastRun.GONE
    if before is None:
        return SinceLastRun.NEW
    pairs = (now.whole, before.whole), (now.quiet, before.quiet)
    return SinceLastRun.UNCHANGED if any(mine is not None and mine == its for mine, its in pairs) else SinceLastRun.CHANGED


def fingerprint(
    looks: Iterable[tuple[int | None, Appearance]], commits: str, cluster: ClusterIdentity, before: Fingerprint | None = None
) -> Fingerprint:
    """The fingerprint of a partition.

    Args:
        looks: of its replicas, of claims of metadata and of logged events, each with its broker, in any order.
        commits: the identity of what groups committed of it.
        cluster: of its cluster.
        before: its fingerprint in an earlier run; where the quiet digest is still the same, the other is not made.
    """
    ordered = sorted(looks, key=_place)
    places = [(broker, look.log_dir, look.directory) for broker, look in ordered if look.directory is not None]
    if any(look.identity is None for _broker, look in ordered) or len(set(places)) < len(places):
        return UNKNOWN
    lasting = [(broker, look.identity, look.log_dir, look.directory) for broker, look in ordered]

    quiet = digest((cluster.lasting, commits, lasting, _decided([look for _broker, look in ordered], cluster.metadata_log_end)))
    if before is not None and before.quiet == quiet:
        return Fingerprint(whole=None, quiet=quiet)
    is_in_log = any(look.log_end_offset >= 0 for _broker, look in ordered)
    return Fingerprint(whole=digest((quiet, cluster.known_findings, cluster.log_ended if is_in_log else None)), quiet=quiet)


def _place(one: tuple[int | None, Appearance]) -> tuple[object, ...]:
    broker, look = one
    return (
        -1 if broker is None else broker,
        look.log_dir or "",
        look.directory or "",
        look.identity or "",
        look.log_epoch,
        look.log_end_offset,
        look.captured_at_ms or 0,
    )


def _decided(looks: Sequence[Appearance], log_end: tuple[int, int]) -> tuple[object, ...]:
    """What the moving numbers of a partition decide."""
    reaches = [(look.log_epoch, look.log_end_offset) for look in looks]
    ranks = {reach: rank for rank, reach in enumerate(sorted(set(reaches)))}
    fixed = sorted({time for look in looks for time in look.times_ms})
    captured, known = [look.captured_at_ms for look in looks], [look.known_at_ms for look in looks]
    return (
        [(ranks[reach], reach >= log_end) for reach in reaches],
        [time if time is None else [_order(time, other) for other in fixed] for time in captured],
        [time if time is None else [_order(time, other) for other in (*fixed, *captured)] for time in known],
    )


def _order(time: int, other: int | None) -> int | None:
    """Which of two moments is the later one: 1 or -1, 2 or -2 if clocks cannot explain it; None if the other is unknown."""
    if other is None:
        return None
    later = time - other
    sign = (later > 0) - (later < 0)
    return 2 * sign if abs(later) >= CLOCKS_DIFFER_MS else sign
