"""The findings that are shown as soon as replicas are compared, while the tables are still to be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.report.facts.worst_first import CODES_BY_LOSS, SEVERITIES

WORST = 5
ORDERED_BY = ("code", "severity", "removed_committed", "records_lost", "cluster_id", "topic", "partition", "broker_id")


def worst_first(found: pa.Table) -> Any:
    """The places of findings in order: partitions without a leader, then by severity, by code, and by what is lost.

    Args:
        found: rows with the columns ORDERED_BY and any others.
    """
    offline = pc.index_in(found["code"], pa.array(CODES_BY_LOSS[:1]))  # null, which comes last, for all others
    ranks: dict[str, Any] = {
        "offline_rank": offline,
        "severity_rank": pc.index_in(found["severity"], pa.array(SEVERITIES)),
        "code_rank": pc.index_in(found["code"], pa.array(CODES_BY_LOSS)),
    }
    ranked = pa.table(ranks | {name: found[name] for name in ORDERED_BY[2:]})
    falling = ("removed_committed", "records_lost")
    order = [(name, "descending" if name in falling else "ascending") for name in ranked.column_names]
    return pc.sort_indices(ranked, sort_keys=order)  # type: ignore[arg-type]


def lines(worst: Sequence[Mapping[str, Any]], count: int, labels: Mapping[str, str]) -> Iterator[str]:
    """A line for each of the worst findings, and one for all others.

    Args:
        worst: rows with columns of `findings`, the worst first.
        count: of all findings.
        labels: of the clusters; they are named if there are several.
    """
    for row in worst:
        place = f"{row['topic']}-{row['partition']}"
        broker = f", broker {row['broker_id']}" if row["broker_id"] >= 0 else ""
        cluster = f" ({labels.get(row['cluster_id'], row['cluster_id'])})" if len(labels) > 1 else ""
        yield f"{row['severity']}: {row['code']}: {place}{broker}{cluster}: {row['summary']}"
    if count > len(worst):
        yield f"and {count - len(worst)} more; the summary follows"
