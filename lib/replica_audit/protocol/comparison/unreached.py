"""What had been committed and is on no disk any more: no two logs differ there, only a checkpoint tells of it."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.protocol.exchange.replica import Replica


def unreached_high_watermark(replicas: Iterable[Replica], *, simultaneous: bool) -> tuple[int, int, int] | None:
    """The largest high watermark that was persisted above the end of every log.

    The rule is the product's own. A high watermark never passes the log end offset (UnifiedLog.maybeIncrementHighWatermark), so what is
    below it was once in that log. Only of brokers that did not run when they were copied: of others the log may have been copied first.

    Args:
        replicas: all of a partition; each can be read.
        simultaneous: whether all brokers were copied at one instant.

    Returns:
        Broker, the largest log end offset of all replicas, and the high watermark; None if a log reaches it, or a broker ran.
    """
    known = list(replicas)
    if not known or not (simultaneous or all(replica.alive is False for replica in known)):
        return None
    end = max(replica.log.log_end_offset for replica in known)
    committed, broker = max((replica.high_watermark or 0, replica.broker_id) for replica in known)
    return (broker, end, committed) if committed > end else None
