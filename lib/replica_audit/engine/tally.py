"""What an audit counts before its tables are written, and its worst findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_audit.formats.values import Row
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.rows import COUNTED, REPLICA_VERDICTS
from replica_audit.rows.arrow import FOUND, STRING, WrittenFile
from replica_audit.rows.codes import Severity

Order = Callable[[pa.Table], Any]  # gives the places of findings in order, the worst first
_COUNTED = frozenset(table.name for table in COUNTED)
_SHOWN = ("code", "severity", "topic", "partition", "broker_id", "summary", "removed_committed", "records_lost", "acknowledgement")
_FINDING = pa.schema([pa.field("cluster_id", STRING), *(FOUND.field(name) for name in _SHOWN)])


@dataclass(slots=True)
class Tally:
    """What was counted in each cluster, by its id.

    Args:
        rows: by cluster and table: rows to be written.
        verdicts: by cluster and verdict: followers.
        severities: by cluster and severity: findings that are not acknowledged.
        acknowledged: by cluster and code: those that are.
        partitions: by cluster: partitions with a follower to judge.
        records_unread: by cluster: clean followers whose records were to be compared and could not be.
        proven_healthy: by cluster: followers of partitions that were proven healthy before any pair was compared.
        worst: the worst findings that are not acknowledged; their cluster_id and some columns of FOUND.
        audited: partitions in all.
        files: in which rows of tables are.
    """

    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    severities: Counter[tuple[str, str]] = field(default_factory=Counter)
    acknowledged: Counter[tuple[str, str]] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    records_unread: Counter[str] = field(default_factory=Counter)
    proven_healthy: Counter[str] = field(default_factory=Counter)
    worst: list[Row] = field(default_factory=list)
    audited: int = 0
    files: list[WrittenFile] = field(default_factory=list)

    def add(self, rows: Mapping[str, pa.RecordBatch], partitions: int) -> None:
        """Count the rows of some partitions, as of `valid_rows.encoded`."""
        self.audited += partitions
        for name in rows.keys() & _COUNTED:
            counted: Any = pc.value_counts(rows[name]["cluster_id"])
            self.rows.update({(one["values"], name): one["counts"] for one in counted.to_pylist()})
        if REPLICA_VERDICTS.name in rows:
            self._add_verdicts(rows[REPLICA_VERDICTS.name])
        if "checked" in rows:
            for cluster, pairs in zip(_texts(rows["checked"], "cluster_id"), rows["checked"]["proven_pairs"].to_pylist(), strict=True):
                self.proven_healthy[cluster] += pairs or 0
        for row in rows["found"].select(_FINDING.names).to_pylist() if "found" in rows else ():
            if is_acknowledged(row):
                self.acknowledged[row["cluster_id"], row["code"]] += 1
            else:
                self.severities[row["cluster_id"], row["severity"]] += 1
                self.worst.append(row)

    def _add_verdicts(self, rows: pa.RecordBatch) -> None:
        clusters = _texts(rows, "cluster_id")
        self.verdicts.update(zip(clusters, _texts(rows, "verdict"), strict=True))
        places = zip(clusters, _texts(rows, "topic"), rows["partition"].to_pylist(), strict=True)
        self.partitions.update(cluster for cluster, _topic, _partition in set(places))
        unread = zip(clusters, _texts(rows, "severity"), rows["records_unread"].is_valid().to_pylist(), strict=True)
        self.records_unread.update(cluster for cluster, severity, is_unread in unread if is_unread and severity == Severity.NONE)

    def merge(self, other: Tally) -> None:
        """Add what another task, or the audit of another cluster, counted."""
        for counts, others in zip(self._counts(), other._counts(), strict=True):
            counts.update(others)
        self.audited += other.audited
        self.worst += other.worst
        self.files += other.files

    def _counts(self) -> tuple[Counter[Any], ...]:
        of_names = (self.rows, self.verdicts, self.severities, self.acknowledged)
        return (*of_names, self.partitions, self.records_unread, self.proven_healthy)

    def keep_worst(self, order: Order, most: int) -> None:
        """Forget all but the worst few findings."""
        found = pa.Table.from_pylist(self.worst, schema=_FINDING)
        self.worst = found.take(order(found)[:most]).to_pylist()

    @property
    def finding_count(self) -> int:
        """Findings in all that are not acknowledged."""
        return self.severities.total()

    @property
    def findings(self) -> Counter[str]:
        """By cluster: findings, acknowledged or not."""
        found = Counter[str]()
        for (cluster, _name), number in [*self.severities.items(), *self.acknowledged.items()]:
            found[cluster] += number
        return found

    def files_of(self, table: str) -> list[WrittenFile]:
        """The files with rows of a table."""
        return [file for file in self.files if file.table == table]

    def of_cluster(self, counts: Counter[tuple[str, str]], cluster_id: str) -> dict[str, int]:
        """One cluster's part of counts, by name."""
        return {name: count for (cluster, name), count in counts.items() if cluster == cluster_id}


def totals(counts: Counter[tuple[str, str]]) -> Counter[str]:
    """Counts of all clusters, by name."""
    summed = Counter[str]()
    for (_cluster, name), count in counts.items():
        summed[name] += count
    return summed


def merged(tallies: Iterable[Tally], order: Order, most: int) -> Tally:
    """What several tasks counted, with the worst few findings."""
    whole = Tally()
    for one in tallies:
        whole.merge(one)
    whole.keep_worst(order, most)
    return whole


def is_acknowledged(finding: Row) -> bool:
    """Whether somebody knows of a finding, and it has neither expired nor got worse."""
    by = finding["acknowledgement"]
    return by is not None and by["state"] == str(AckState.ACKNOWLEDGED)


def _texts(rows: pa.RecordBatch, name: str) -> list[str]:
    return list(map(str, rows[name].to_pylist()))
