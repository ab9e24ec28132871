"""What the tables of a run leave in doubt, for its exit code and its last line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.model import UNDEFINED_EPOCH
from replica_audit.model.problem_codes import NOT_READ_WHOLE
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Severity, Verdict
from replica_audit.report.facts.doubts import Doubts
from replica_audit.rows import FINDINGS, INPUT_ERRORS, REPLICA_ROLES, REPLICA_VERDICTS, Table
from replica_audit.rows.arrow import nullable_columns
from replica_audit.storage.warehouse.arrow_tables import ArrowTables

# tables of older versions may lack a column, so that a condition names only what they all have
_MAY_BE_SET_ASIDE = ds.field("code") == str(PartitionCode.WILL_BECOME_STRAY)
_PARTITION = ["cluster_id", "topic", "partition"]
_WITHOUT_EPOCH = (ds.field("leader_id") >= 0) & (ds.field("leader_epoch") == UNDEFINED_EPOCH)
# of two logs that are the same it does not matter who leads
_IS_BEHIND = (ds.field("severity") == str(Severity.NONE)) & (ds.field("verdict") != str(Verdict.IDENTICAL))
_IS_INFERRED = (ds.field("severity") == str(Severity.NONE)) & (ds.field("leader_source") == INFERRED)


def doubts_of(tables: ArrowTables, run_id: str) -> Doubts:
    """What a run could not read, or knows by a guess only, whether it is complete or not."""
    unread = _rows(tables, INPUT_ERRORS, ("code", "path"), run_id, ds.field("code").isin(sorted(NOT_READ_WHOLE)))
    codes, paths = ([str(value) for value in unread[name].to_pylist()] for name in ("code", "path"))
    inferred = _rows(tables, REPLICA_VERDICTS, ("inferred_because",), run_id, _IS_INFERRED)["inferred_because"].to_pylist()
    # that nobody leads, and who can, is a finding of its own
    guessed = sum(because != InferredBecause.NO_LEADER for because in inferred)
    touched = pc.sum(_rows(tables, REPLICA_VERDICTS, ("keys_may_differ",), run_id)["keys_may_differ"]).as_py()
    told = _rows(tables, FINDINGS, ("is_certain", "acknowledgement"), run_id, _MAY_BE_SET_ASIDE).to_pylist()
    aside = [row["acknowledgement"] for row in told if row["is_certain"] is False]
    undated = _rows(tables, REPLICA_ROLES, _PARTITION, run_id, _WITHOUT_EPOCH).group_by(_PARTITION).aggregate([])
    behind = (
        _rows(tables, REPLICA_VERDICTS, _PARTITION, run_id, _IS_BEHIND).join(undated, _PARTITION, join_type="inner") if len(undated) else ()
    )
    return Doubts(
        unread=dict(sorted(Counter(codes).items())),
        first_unread=min(paths, default=""),
        guessed_leaders=guessed,
        keys_may_differ=touched or 0,
        undated_leaders=len(behind),
        unknown_topic_ids=sum(known is None or known["state"] != AckState.ACKNOWLEDGED for known in aside),
    )


def _rows(tables: ArrowTables, table: Table, names: Sequence[str], run_id: str, where: ds.Expression | None = None) -> pa.Table:
    return tables.columns(table.name, nullable_columns(table, names), where, run_id=run_id)
