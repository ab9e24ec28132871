"""The findings of a run that somebody knows of, apart from those that nobody does; in columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.past.run import PastRun, counted, in_order
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.confirmation import FOUND_NOW, Status
from replica_audit.protocol.verdict.partition_findings import FindingAbout
from replica_audit.report.facts.run_report import AcknowledgedGroup, AcknowledgedPlace
from replica_audit.rows import FINDINGS

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
                    AcknowledgedPlace(cluster_id=row["cluster_id"], topic=row["topic"], partition=row["partition"]) for row in first
                ),
            )
        )
    return tuple(made)


def fully_known(run: PastRun) -> pa.Table:
    """Cluster, topic and partition of those partitions all of whose findings of this run somebody knows of."""
    known = found(run, _PLACE, acknowledged=True).group_by(_PLACE).aggregate([])
    return known.join(found(run, _PLACE), _PLACE, join_type="left anti") if len(known) else known
