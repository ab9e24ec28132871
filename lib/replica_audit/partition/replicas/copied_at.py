"""When the leader's replica was copied, as far as the clocks of several brokers agree about it."""

from __future__ import annotations

from collections.abc import Mapping

from replica_audit.partition.replicas.loading import Loaded


def copied_at_ms(leader_id: int, compared: Mapping[int, Loaded]) -> int | None:
    """When a leader was copied at the earliest, in milliseconds since the epoch; None if its copy does not say when.

    A collection has the time of its broker's clock, which may be hours ahead. So of the partition's replicas the earliest time counts: a
    copy that is later than what other clocks wrote has to be so by every clock.
    """
    if leader_id not in compared or compared[leader_id].files.captured_at_ms is None:
        return None
    return min(one.files.captured_at_ms for one in compared.values() if one.files.captured_at_ms is not None)
