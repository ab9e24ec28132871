"""What an audit counts before its tables are written, and its worst findings, in one pass over the audited partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.arrow import spark_schema
from replica_audit.formats.values import Row
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.rows import COUNTED
from replica_audit.rows.arrow import BIGINT, FOUND, OUTCOMES, STRING, WrittenFile
from replica_audit.rows.encoding import row_of

Order = Callable[[pa.Table], Any]
_COUNTED = tuple(table.name for table in COUNTED)
_SHOWN = ("code", "severity", "topic", "partition", "broker_id", "summary", "removed_committed", "records_lost", "acknowledgement")
_KINDS = ("rows", "verdict", "severity", "acknowledged", "partitions", "unread", "proven")
_ROWS, _VERDICT, _SEVERITY, _ACKNOWLEDGED, _PARTITIONS, _UNREAD, _PROVEN = _KINDS
_FINDING = pa.struct([FOUND.field(FOUND.get_field_index(name)) for name in _SHOWN])
# a row is a count of a cluster, one of its findings, or a file
_COLUMNS: list[tuple[str, pa.DataType]] = [("cluster_id", STRING), ("counted", STRING), ("name", STRING), ("count", BIGINT)]
_TALLY = pa.schema([*_COLUMNS, ("finding", _FINDING), ("file", OUTCOMES.field("file").type)])


@dataclass(frozen=True, slots=True, kw_only=True)
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
        worst: the worst findings that are not acknowledged, as many as were asked for; their cluster_id and some columns of FOUND.
        audited: partitions in all.
        files: in which rows of tables are.
    """

    rows: Counter[tuple[str, str]]
    verdicts: Counter[tuple[str, str]]
    severities: Counter[tuple[str, str]]
    acknowledged: Counter[tuple[str, str]]
    partitions: Counter[str]
    records_unread: Counter[str]
    proven_healthy: Counter[str]
    worst: list[Row]
    audited: int
    files: tuple[WrittenFile, ...]

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


def tally(outcomes: DataFrame, order: Order, most: int) -> Tally:
    """Count, and find the worst `most` findings.

    Args:
        outcomes: rows of the shape OUTCOMES.
        order: gives the places of findings in order, the worst first.
        most: how many of the findings to keep.
    """
    shown = F.transform("found", lambda row: F.struct(*(row[name].alias(name) for name in _SHOWN)))
    parts = outcomes.select("cluster_id", "sizes", "verdicts", "records_unread", "checked", shown.alias("found"), "file")
    made = parts.mapInArrow(partial(_of_task, order=order, most=most), spark_schema(_TALLY)).collect()  # a few for each task and cluster
    counts: dict[str, Counter[tuple[str, str]]] = {kind: Counter() for kind in _KINDS}
    findings, files = [], []
    for row in made:
        if row["file"] is not None:
            files.append(row_of(WrittenFile, row["file"].asDict()))
        elif row["finding"] is None:
            counts[row["counted"]][row["cluster_id"], row["name"]] += row["count"]
        else:
            findings.append({"cluster_id": row["cluster_id"], **row["finding"].asDict()})
    judged = Counter({cluster: count for (cluster, name), count in counts[_PARTITIONS].items() if name == _VERDICT})
    return Tally(
        rows=counts[_ROWS],
        verdicts=counts[_VERDICT],
        severities=counts[_SEVERITY],
        acknowledged=counts[_ACKNOWLEDGED],
        partitions=judged,
        records_unread=Counter({cluster: count for (cluster, _name), count in counts[_UNREAD].items()}),
        proven_healthy=Counter({cluster: count for (cluster, _name), count in counts[_PROVEN].items()}),
        worst=_worst(pa.Table.from_pylist(findings, schema=_findings_schema()), order, most),
        audited=sum(count for (_cluster, name), count in counts[_PARTITIONS].items() if name == _ROWS),
        files=tuple(files),
    )


def _count(cluster: str, partitions: Any, counts: Counter[tuple[str, str, str]]) -> None:
    """Count partitions of a cluster, column by column: there are a hundred thousand of them, and few with a finding."""
    sizes = pc.list_flatten(partitions["sizes"]).to_numpy().reshape(-1, len(_COUNTED)).sum(axis=0).tolist()
    counts.update({(cluster, _ROWS, name): size for name, size in zip(_COUNTED, sizes, strict=True) if size})
    for one in pc.value_counts(pc.list_flatten(partitions["verdicts"])).to_pylist():
        counts[cluster, _VERDICT, one["values"]] += one["counts"]
    counts[cluster, _UNREAD, _VERDICT] += pc.sum(partitions["records_unread"]).as_py()
    counts[cluster, _PROVEN, _VERDICT] += pc.sum(pc.struct_field(pc.list_flatten(partitions["checked"]), "proven_pairs")).as_py() or 0
    counts[cluster, _PARTITIONS, _ROWS] += len(partitions)
    counts[cluster, _PARTITIONS, _VERDICT] += len(partitions.filter(pc.list_value_length(pc.field("verdicts")) > 0))


def _findings_schema() -> pa.Schema:
    return pa.schema([("cluster_id", STRING), *((field.name, field.type) for field in _FINDING)])


def _of_task(batches: Iterator[pa.RecordBatch], order: Order, most: int) -> Iterator[pa.RecordBatch]:
    """The counts of a task's partitions, its worst findings, and its files."""
    counts: Counter[tuple[str, str, str]] = Counter()
    worst: list[Row] = []
    made: list[Row] = []
    for batch in batches:
        is_file = batch["file"].is_valid()
        made += ({"file": file} for file in batch["file"].filter(is_file).to_pylist())
        of_partitions = pa.Table.from_batches([batch.filter(pc.invert(is_file))])
        for name in pc.unique(of_partitions["cluster_id"]).to_pylist():
            _count(str(name), of_partitions.filter(pc.field("cluster_id") == name), counts)
        for row in of_partitions.filter(pc.list_value_length(pc.field("found")) > 0).select(["cluster_id", "found"]).to_pylist():
            cluster = row["cluster_id"]
            known = [finding["code"] for finding in row["found"] if is_acknowledged(finding)]
            loud = [finding for finding in row["found"] if not is_acknowledged(finding)]
            counts.update((cluster, _ACKNOWLEDGED, code) for code in known)
            counts.update((cluster, _SEVERITY, finding["severity"]) for finding in loud)
            worst += ({"cluster_id": cluster, **finding} for finding in loud)
        worst = _worst(pa.Table.from_pylist(worst, schema=_findings_schema()), order, most)
    made += ({"cluster_id": c, "counted": kind, "name": name, "count": count} for (c, kind, name), count in counts.items())
    made += ({"cluster_id": row["cluster_id"], "finding": {name: row[name] for name in _SHOWN}} for row in worst)
    yield pa.RecordBatch.from_pylist(made, schema=_TALLY)


def is_acknowledged(finding: Row) -> bool:
    """Whether somebody knows of a finding, and it has neither expired nor got worse."""
    by = finding["acknowledgement"]
    return by is not None and by["state"] == str(AckState.ACKNOWLEDGED)


def _worst(found: pa.Table, order: Order, most: int) -> list[Row]:
    return found.take(order(found)[:most]).to_pylist()
