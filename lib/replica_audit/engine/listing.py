"""Listing a cluster in this process for what there is to read of it, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable

from replica_audit.model import BytesToRead
from replica_audit.stages.cost import bytes_to_read
from replica_audit.stages.inventory import SOURCE_COLUMNS, list_source


def listed_amounts(sources: Iterable[tuple[str, int | None, str, str]], topics: str) -> BytesToRead:
    """How much there is of everything; no segment is opened, no server.log read.

    Args:
        sources: what the inventory lists, as of `Root.sources`.
        topics: as the setting.
    """
    listed = (dict(zip(SOURCE_COLUMNS, source, strict=True)) for source in sources if source[3] != "server-log")
    return bytes_to_read(row for source in listed for row in list_source(source, topics))
