"""What is seen of each partition brought together, and what an earlier run knows of those that look as they did.

Nothing is decided here; the rows of tables stay where they are until they are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.arrow import pack, spark_schema
from replica_audit.engine.moved_logs import packed_logs, with_moments
from replica_audit.formats.shapes import FINGERPRINTS, INVENTORY, MOVED, SEEN
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.fingerprint import ClusterIdentity
from replica_audit.rows import COUNTED, PARTITION_FINGERPRINTS, REPLICA_LOGS
from replica_audit.rows.arrow import OUTCOMES, schema_of
from replica_audit.rows.fingerprints import NEVER_IF_COLLECTED, NEVER_TAKEN_OVER, NEVER_WITH_PROBLEMS, QUIET_TABLES
from replica_audit.rows.packed_rows import PACKS
from replica_audit.stages.commits import KEYS
from replica_audit.stages.fingerprints import compared
from replica_audit.stages.inventory import Keys
from replica_audit.stages.packed_claims import claims_of

_DIGESTS = ("fingerprint", "quiet_fingerprint")
_OF_OUTCOME = {"sizes": "row_counts", "verdicts": "verdicts", "input_errors": "input_errors", "found": "found", "checked": "checked"}


def fingerprints(
    listed: DataFrame, committed: DataFrame | None, clusters: Mapping[str, ClusterFacts], before: DataFrame | None = None
) -> DataFrame:
    """The fingerprint of every partition that is audited.

    Args:
        listed: rows of the shape INVENTORY, with looks.
        committed: what groups committed, as of `engine.spark.commits`; None where no group's offsets are in the input.
        clusters: the facts of each.
        before: rows of `partition_fingerprints` of the run that is compared with; None if there is none.

    Returns:
        Rows of the shape FINGERPRINTS, among them one for each partition that is only in the earlier run.
    """
    seen = [_seen(looks_of(listed), **{name: F.col(name) for name in ("pack", "broker_id", "looks")})]
    of_partition = {name: F.col(name) for name in KEYS[1:]} | {"pack": pack()}
    if committed is not None:
        seen.append(_seen(committed.where(F.col("commit").isNotNull()), commit=F.col("commit"), **of_partition))
    if before is not None:
        seen.append(_seen(before, before=F.struct(*_DIGESTS), **of_partition))
    identities = {cluster: ClusterIdentity.of(facts) for cluster, facts in clusters.items()}
    of_partitions = in_tasks(reduce(DataFrame.unionByName, seen))
    return of_partitions.mapInArrow(partial(compared, clusters=identities), spark_schema(FINGERPRINTS))


def _seen(rows: DataFrame, **found: Column) -> DataFrame:
    """Rows of the shape SEEN, in which all but the given columns is null."""
    types = spark_schema(SEEN)
    found["cluster_id"] = F.col("cluster_id")
    return rows.select(*(found.get(name, F.lit(None)).cast(types[name].dataType).alias(name) for name in SEEN.names))


def looks_of(listed: DataFrame) -> DataFrame:
    """The packs of looks among rows of the shape INVENTORY, as `pack`, `cluster_id`, `broker_id` and `looks`."""
    return listed.where(F.col("looks").isNotNull()).select("looks.pack", "cluster_id", "broker_id", F.col("looks.rows").alias("looks"))


def packed_claims(inventory: DataFrame, replicas: Keys | None) -> DataFrame:
    """The claims of some partitions that a listing has in packs, as rows of the shape INVENTORY.

    Args:
        inventory: rows of the shape INVENTORY.
        replicas: as of `Listing`.
    """
    packs = inventory.where(F.col("claims").isNotNull()).select("cluster_id", "broker_id", "claims")
    return packs.mapInArrow(partial(claims_of, replicas=replicas), spark_schema(INVENTORY))


def outcomes_before(kept: DataFrame) -> DataFrame:
    """What is known of unchanged partitions, as rows of the shape OUTCOMES."""
    known = {name: F.col(column) for name, column in _OF_OUTCOME.items()}
    known["records_unread"] = F.lit(0).cast("bigint")  # with --compare records nothing is taken over
    known["file"] = F.lit(None).cast(spark_schema(OUTCOMES)["file"].dataType)
    return kept.select(*(known.get(name, F.col(name)).alias(name) for name in OUTCOMES.names))


def fingerprint_rows(outcomes: DataFrame, now: DataFrame) -> DataFrame:
    """The rows of `partition_fingerprints`, without `run_id`.

    Args:
        outcomes: rows of the shape OUTCOMES, of partitions that were audited.
        now: rows of the shape FINGERPRINTS.
    """
    checked = F.col("checked")[0]
    found = outcomes.where(F.size("checked") > 0).select(
        "cluster_id",
        checked.topic.alias("topic"),
        checked.partition.alias("partition"),
        *(F.col(name).alias(column) for name, column in _OF_OUTCOME.items()),
    )
    rows = found.join(now, on=list(KEYS), how="left")
    is_unread = F.exists("input_errors", lambda problem: problem.code.isin(*NEVER_WITH_PROBLEMS))
    is_open = is_unread | _any_row(NEVER_TAKEN_OVER) | (_any_row(NEVER_IF_COLLECTED) & F.col("is_collected"))
    is_quiet = ~_any_row(tuple(t.name for t in COUNTED if t.name not in QUIET_TABLES)) & (F.size("found") == 0)
    # one of the two: where the whole digest is the same, so is the quiet one
    kept = {"fingerprint": ~is_quiet & ~is_open, "quiet_fingerprint": is_quiet & ~is_open}
    names = [column.name for column in PARTITION_FINGERPRINTS.columns if column.name != "run_id"]
    return rows.select(*(F.when(kept[name], F.col(name)).alias(name) if name in kept else F.col(name) for name in names))


def _any_row(tables: tuple[str, ...]) -> Column:
    """Whether a partition has a row in any of the tables."""
    places = [place for place, table in enumerate(COUNTED) if table.name in tables]
    found = F.lit(False)
    for place in places:
        found = found | (F.col("row_counts")[place] > 0)
    return found


def taken_over(rows: DataFrame, gone: DataFrame, looks: DataFrame | None = None) -> DataFrame:
    """The rows of a table that an earlier run has of partitions that did not change, without `run_id`.

    Args:
        rows: those of the earlier run.
        gone: the keys of partitions of that run whose rows are not taken over; they should be few.
        looks: for `replica_logs`: what the listing sees now, as of `looks_of`; its moments are in the rows then.
    """
    kept = rows.drop("run_id").join(F.broadcast(gone), on=list(KEYS), how="left_anti")
    if looks is None:
        return kept
    schema = spark_schema(pa.schema(list(schema_of(REPLICA_LOGS))[1:]))
    return meeting(kept.mapInArrow(packed_logs, spark_schema(MOVED)), looks).mapInArrow(with_moments, schema)


def meeting(logs: DataFrame, looks: DataFrame) -> DataFrame:
    """Rows of the shape MOVED, with the looks of their replicas, as of `looks_of`, in one task."""
    return in_tasks(logs.unionByName(looks, allowMissingColumns=True).select(*MOVED.names))


def in_tasks(rows: DataFrame) -> DataFrame:
    """Rows that have a `pack`, as many packs in each task: by their hashes some tasks would have several, and others none."""
    tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or PACKS)
    return rows.repartitionById(min(tasks, PACKS), F.col("pack") % min(tasks, PACKS))
