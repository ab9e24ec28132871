"""The findings of a past run, in columns: those that somebody knows of apart from the others, sorted, and those it could not confirm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.errors import UsageError
from replica_audit.past.run import PastRun, counted, in_order
from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW, AckState, Status
from replica_audit.protocol.verdict.partition_findings import FindingAbout, PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.still_open import NOTHING_OPEN, MissingPart, StillOpen
from replica_audit.report.facts.assessment import CODES_BY_LOSS
from replica_audit.report.facts.due_facts import NAMED
from replica_audit.report.facts.question import chosen_run
from replica_audit.report.facts.run_report import AcknowledgedGroup, PartitionPlace
from replica_audit.report.text.findings_text import worst_first
from replica_audit.rows import FINDINGS, OPEN_TRANSACTIONS, REPLICA_VERDICTS, SEQUENCE_GAPS, Table
from replica_audit.rows.arrow import severity_ranks
from replica_audit.rows.codes import Severity
from replica_audit.rows.findings import RunFinding

_COLUMN = "acknowledgement"
_BY = ["state", "until", "who", "reason", "line"]
_OF_GROUP = ["cluster_id", "code", "topic", "partition", "broker_id"]
OPEN = (*FOUND_NOW, str(Status.UNCONFIRMED))
_NAMED = 3
_PLACE = ["cluster_id", "topic", "partition"]
_VERDICT_KEYS = ["cluster_id", "topic", "partition", "verdict", "follower_id"]


def with_acknowledgement(findings: pa.Table) -> Any:
    """For each finding, whether somebody knows of it, and it neither expired nor got worse; null is no."""
    if pa.types.is_null(findings[_COLUMN].type) or not len(findings):
        return pa.array([False] * len(findings), pa.bool_())
    state: Any = pc.struct_field(findings[_COLUMN], "state")
    return pc.fill_null(pc.equal(state, pa.scalar(str(AckState.ACKNOWLEDGED))), False)


def found(run: PastRun, names: Sequence[str], where: ds.Expression | None = None, *, acknowledged: bool | None = False) -> pa.Table:
    """Columns of the findings that the run itself has and nobody knows of; or those that somebody does, None: both."""
    return findings(run, names, FOUND_NOW, where, acknowledged=acknowledged)


def findings(
    run: PastRun, names: Sequence[str], statuses: Sequence[str], where: ds.Expression | None = None, *, acknowledged: bool | None = False
) -> pa.Table:
    """The same of these statuses."""
    wanted = ds.field("status").isin(list(statuses))
    read = run.read(FINDINGS, list(dict.fromkeys([*names, _COLUMN])), wanted if where is None else wanted & where)
    if acknowledged is not None:
        is_known = with_acknowledgement(read)
        read = read.filter(is_known if acknowledged else pc.invert(is_known))
    return read.select(list(dict.fromkeys(names)))


def without_known(run: PastRun, verdicts: pa.Table) -> pa.Table:
    """Rows of `replica_verdicts` without those whose finding somebody knows of; all have `cluster_id` ... `follower_id` and `verdict`."""
    known = found(run, _OF_GROUP, acknowledged=True)
    if not len(known):
        return verdicts
    places = verdicts.select(_VERDICT_KEYS).append_column("place", pa.array(range(len(verdicts)), pa.int64()))
    keys = ["cluster_id", "topic", "partition", "code", "broker_id"]
    left = places.join(known.select(keys), _VERDICT_KEYS, keys, join_type="left anti")
    return verdicts.take(left["place"])


def known_verdicts(run: PastRun) -> dict[str, int]:
    """How many followers have a verdict that somebody knows of, by the verdict."""
    of_cluster = known_verdicts_by_cluster(run)
    return {code: sum(of_cluster[key] for key in of_cluster if key[1] == code) for code in sorted({code for _cluster, code in of_cluster})}


def known_verdicts_by_cluster(run: PastRun) -> Counter[tuple[Any, ...]]:
    """The same by cluster and verdict."""
    names = ["cluster_id", "code"]
    rows = found(run, [*names, "about"], acknowledged=True)  # runs of older versions lack `about`
    return counted(rows.filter(ds.field("about") == str(FindingAbout.FOLLOWER)), names)


def groups(run: PastRun, most: int) -> tuple[AcknowledgedGroup, ...]:
    """The entries that are about open findings: those that hold, the next to expire first, then those that do not; `most` of both."""
    read = findings(run, [*_OF_GROUP, "severity", _COLUMN], OPEN, acknowledged=None)
    if not len(read):
        return ()
    read = read.filter(pc.is_valid(read[_COLUMN]))
    if not len(read):
        return ()
    flat = read.select([*_OF_GROUP, "severity"])
    for name in _BY:
        part: Any = pc.struct_field(read[_COLUMN], name)
        flat = flat.append_column(name, part)
    flat = flat.take(in_order(flat, [(name, "ascending") for name in (*_BY, *_OF_GROUP)]))
    made: list[AcknowledgedGroup] = []
    each = flat.append_column("row", pa.array(range(len(flat)), pa.int64()))
    grouped = each.group_by(_BY).aggregate([("row", "min"), ([], "count_all"), ("code", "distinct")]).to_pylist()
    ordered = sorted(grouped, key=lambda one: one["row_min"])
    holding = [one for one in ordered if one["state"] == str(AckState.ACKNOWLEDGED)]
    for group in [*holding[:most], *(one for one in ordered if one not in holding)][: len(holding[:most]) + most]:
        first = flat.slice(group["row_min"], min(_NAMED, group["count_all"])).to_pylist()
        made.append(
            AcknowledgedGroup(
                state=AckState(group["state"]),
                reason=group["reason"],
                who=group["who"],
                until=group["until"],
                line=group["line"],
                count=group["count_all"],
                codes=tuple(sorted(group["code_distinct"])),
                partitions=tuple(
                    PartitionPlace(cluster_id=row["cluster_id"], topic=row["topic"], partition=row["partition"]) for row in first
                ),
            )
        )
    return tuple(made)


def fully_known(run: PastRun) -> pa.Table:
    """Cluster, topic and partition of those partitions all of whose findings of this run somebody knows of."""
    known = found(run, _PLACE, acknowledged=True).group_by(_PLACE).aggregate([])
    return known.join(found(run, _PLACE), _PLACE, join_type="left anti") if len(known) else known


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
        found = self._run.read(table, [name for name in table.names if name not in table.of_run])
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
    names = [name for name in flat if name in of_verdict and name not in ("severity", "severity_rank", *FINDINGS.of_run, *_KEYS)]
    verdicts = run.read(REPLICA_VERDICTS, ["cluster_id", "topic", "partition", "verdict", "follower_id", *names])
    keys = found.select(_KEYS).append_column("place", pa.array(range(len(found)), pa.int64()))
    joined = keys.join(verdicts, _KEYS, ["cluster_id", "topic", "partition", "verdict", "follower_id"], join_type="left outer")
    joined = joined.take(in_order(joined, [("place", "ascending")]))
    for name in names:
        found = found.set_column(found.schema.get_field_index(name), found.schema.field(name), joined[name])
    return found


_KEY = ["topic", "partition"]
_LOUD = [str(Severity.CRITICAL), str(Severity.ERROR)]


def still_open(run: PastRun, cluster_id: str) -> StillOpen:
    """Those of a cluster that are errors at least, without those that are acknowledged.

    Raises:
        UsageError: a table cannot be read.
    """
    wanted = (ds.field("cluster_id") == cluster_id) & ds.field("severity").isin(_LOUD)
    found = findings(run, [*_KEY, "severity", "code", "broker_id", "last_seen_run_id"], [Status.UNCONFIRMED], wanted)
    if len(found):
        found = _without_told_again(run, found, ds.field("cluster_id") == cluster_id)
    if not len(found):
        return NOTHING_OPEN
    keys = found.group_by(_KEY).aggregate([]).sort_by([(name, "ascending") for name in _KEY])
    ranked = found.append_column("severity_rank", severity_ranks(found["severity"]))
    ranked = ranked.append_column("code_rank", pc.index_in(found["code"], pa.array(CODES_BY_LOSS)))
    order = [(name, "ascending") for name in ("severity_rank", "code_rank", *_KEY, "broker_id")]
    (worst,) = found.take(in_order(ranked, order)[:1]).to_pylist()
    return StillOpen(
        rows=len(found),
        count=len(keys),
        first=tuple((row["topic"], row["partition"]) for row in keys.slice(0, NAMED).to_pylist()),
        worst=(worst["topic"], worst["partition"]),
        seen_by=worst["last_seen_run_id"] if _is_kept(run, worst["last_seen_run_id"]) else None,
    )


def _without_told_again(run: PastRun, found: pa.Table, own: ds.Expression) -> pa.Table:
    """Leave out what a broker's log told while its replica could not be compared, where the verdict of this run tells that it is lost."""
    replica = [*_KEY, "broker_id"]
    lost = findings(run, replica, FOUND_NOW, own & (ds.field("code") == str(Verdict.COMMITTED_LOSS)))
    if not len(lost):
        return found
    is_told = pc.field("code") == str(PartitionCode.REMOVED_BELOW_HIGH_WATERMARK)
    left = found.filter(is_told).join(lost, replica, join_type="left anti")
    return pa.concat_tables([found.filter(~is_told), left.select(found.column_names).cast(found.schema)])


def missing_part(run: PastRun, cluster_id: str) -> MissingPart | None:
    """What an earlier run had of a cluster and this one lacks; None: nothing."""
    row = next((row for row in run.runs if row.cluster_id == cluster_id), None)
    if row is None or not (row.last_seen_run_id or row.missing_broker_ids):
        return None
    brokers = None if row.last_seen_run_id else row.missing_broker_ids
    return MissingPart(cluster_id=cluster_id, broker_ids=brokers, last_seen_run_id=row.last_seen_run_id)


def kept_runs(run: PastRun, found: Iterable[RunFinding]) -> frozenset[str]:
    """The runs that saw these findings last, as far as the warehouse still has them complete: `maintain` removes old ones."""
    return frozenset(run_id for run_id in {one.last_seen_run_id for one in found} if _is_kept(run, run_id))


def _is_kept(run: PastRun, run_id: str | None) -> bool:
    if not run_id:
        return False
    try:
        chosen_run(run.tables, run_id=run_id)
    except UsageError:
        return False
    return True
