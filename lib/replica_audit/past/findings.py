"""Every finding of a past run, the worst first, and rows of other tables: sorted as Arrow columns, made Python objects a few at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from replica_audit.past.acknowledged import findings
from replica_audit.past.run import PastRun, in_order
from replica_audit.report.text.findings_text import worst_first
from replica_audit.rows import FINDINGS, OPEN_TRANSACTIONS, REPLICA_VERDICTS, SEQUENCE_GAPS, Table

_AT_ONCE = 1000
_KEYS = ["cluster_id", "topic", "partition", "code", "broker_id"]


def all_findings(run: PastRun, statuses: tuple[str, ...], *, acknowledged: bool = False) -> Iterator[dict[str, Any]]:
    """The rows of `findings` of these statuses that are not acknowledged, or else those that are.

    Partitions without a leader come first; then by severity, by code, and by what is lost.
    """
    names = [column.name for column in FINDINGS.columns]
    found = _with_facts(run, findings(run, names, statuses, acknowledged=acknowledged))
    places = worst_first(found)
    for start in range(0, len(places), _AT_ONCE):
        yield from found.take(places[start : start + _AT_ONCE]).to_pylist()


class ListedRows:
    """What a list of all that a run found is made of."""

    def __init__(self, run: PastRun, top: int | None = None) -> None:
        """Take a run; of each list only the first `top` rows are given, None: all."""
        self._run, self._top = run, top

    def findings(self, statuses: tuple[str, ...], *, acknowledged: bool = False) -> Iterator[dict[str, Any]]:
        """Findings of these statuses, as `all_findings`."""
        return islice(all_findings(self._run, statuses, acknowledged=acknowledged), self._top)

    def open_transactions(self) -> Iterator[dict[str, Any]]:
        """The rows of `open_transactions`, by partition and offset."""
        return islice(self._rows(OPEN_TRANSACTIONS, "first_offset"), self._top)

    def sequence_gaps(self) -> Iterator[dict[str, Any]]:
        """The rows of `sequence_gaps`, by partition and offset."""
        return islice(self._rows(SEQUENCE_GAPS, "first_offset_after"), self._top)

    def _rows(self, table: Table, last: str) -> Iterator[dict[str, Any]]:
        found = self._run.read(table, [column.name for column in table.columns if column.name != "run_id"])
        places = in_order(found, [(name, "ascending") for name in ("cluster_id", "topic", "partition", last)])
        for start in range(0, len(places), _AT_ONCE):
            yield from found.take(places[start : start + _AT_ONCE]).to_pylist()


def _with_facts(run: PastRun, found: pa.Table) -> pa.Table:
    """The findings of an older version with the facts of their verdicts, which its table lacks."""
    if not len(found) or found["about"].null_count < len(found):
        return found
    of_verdict = [column.name for column in REPLICA_VERDICTS.columns]
    # facts that are nested came later than those that a verdict of an older version has
    flat = [field.name for field in found.schema if not pa.types.is_nested(field.type)]
    names = [name for name in flat if name in of_verdict and name not in ("run_id", "severity", *_KEYS)]
    verdicts = run.read(REPLICA_VERDICTS, ["cluster_id", "topic", "partition", "verdict", "follower_id", *names])
    keys = found.select(_KEYS).append_column("place", pa.array(range(len(found)), pa.int64()))
    joined = keys.join(verdicts, _KEYS, ["cluster_id", "topic", "partition", "verdict", "follower_id"], join_type="left outer")
    joined = joined.take(in_order(joined, [("place", "ascending")]))
    for name in names:
        found = found.set_column(found.schema.get_field_index(name), found.schema.field(name), joined[name])
    return found
