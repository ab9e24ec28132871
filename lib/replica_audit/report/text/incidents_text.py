"""What the brokers' own logs show of a partition: committed records removed, truncations refused, unclean elections."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.words import count

_MOST = 12
_AFTERWARDS = (
    "Committed records that a truncation removed are gone from that replica: look for them in earlier copies and in what "
    "consumers have processed. Groups whose committed offset is above the truncation offset resume at other records."
)


def incident_lines(facts: PartitionFacts) -> Iterator[str]:
    """One item for each incident, the last ones of many."""
    if not facts.incidents:
        return
    yield "According to the brokers' server.log"
    left_out = len(facts.incidents) - _MOST
    if left_out > 0:
        yield from paragraph(f"{count(left_out, 'earlier incident')} {whole_in('the table logged_incidents', facts.warehouse)}")
    for incident in facts.incidents[-_MOST:]:
        yield from paragraph(f"{incident.summary}.", first="- ")
    if any(incident.kind == "removed_below_high_watermark" for incident in facts.incidents):
        yield from paragraph(_AFTERWARDS)
