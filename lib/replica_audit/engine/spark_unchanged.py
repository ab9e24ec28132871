"""Which partitions look as they did in an earlier run, and what that run knows of them.

Nothing here is decided but by comparing fingerprints; the rows of tables stay where they are until they are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica_audit.engine.arrow import spark_schema
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.fingerprint import ClusterIdentity
from replica_audit.stages.commits import KEYS
from replica_audit.stages.fingerprints import list_fingerprint
from replica_audit.stages.mapping import map_rows
from replica_audit.tables import COUNTED, OUTCOMES, PARTITION_FINGERPRINTS
from replica_audit.tables.fingerprints import FINGERPRINTS, NEVER_TAKEN_OVER, QUIET_TABLES

_DIGESTS = ("fingerprint", "quiet_fingerprint")
_REPLICA = ("broker_id", "log_dir", "directory")
# the columns of `replica_logs` that change though nothing happened, and the moments of a look that they show
_TIMES = {"captured_at": "captured_at_ms", "crcs_verified_at": "verified_at_ms", "looked_again_at": "looked_at_ms"}
_OF_OUTCOME = {"sizes": "row_counts", "verdicts": "verdicts", "input_errors": "input_errors", "found": "found", "checked": "checked"}


def fingerprints(listed: DataFrame, committed: DataFrame | None, clusters: Mapping[str, ClusterFacts]) -> DataFrame:
    """The fingerprint of every partition that is audited.

    Args:
        listed: rows of the shape INVENTORY, with looks.
        committed: what groups committed, as of `engine.spark.commits`; None where no group's offsets are in the input.
        clusters: the facts of each.

    Returns:
        Rows of the shape FINGERPRINTS.
    """
    looks = listed.where(F.col("look").isNotNull() & F.col("is_audited")).select(*KEYS, F.struct("broker_id", "look").alias("look"))
    looks = looks.groupBy(*KEYS).agg(F.collect_list("look").alias("looks"))
    if committed is None:
        looks = looks.withColumn("commits", F.lit(None).cast("array<string>"))
    else:
        of_partition = committed.where(F.col("commit").isNotNull()).groupBy(*KEYS).agg(F.collect_list("commit").alias("commits"))
        looks = looks.join(of_partition, on=list(KEYS), how="left")
    identities = {cluster: ClusterIdentity.of(facts) for cluster, facts in clusters.items()}
    return looks.mapInArrow(map_rows(partial(list_fingerprint, clusters=identities), FINGERPRINTS), spark_schema(FINGERPRINTS))


def unchanged(now: DataFrame, before: DataFrame) -> DataFrame:
    """The rows of `partition_fingerprints` of partitions that look as they did.

    Args:
        now: rows of the shape FINGERPRINTS.
        before: rows of `partition_fingerprints` of the run before.
    """
    digests = now.select(*KEYS, *(F.col(name).alias(f"now_{name}") for name in _DIGESTS))
    same = [F.col(name) == F.col(f"now_{name}") for name in _DIGESTS]
    return before.join(digests, on=list(KEYS)).where(same[0] | same[1]).drop(*(f"now_{name}" for name in _DIGESTS))


def outcomes_before(kept: DataFrame) -> DataFrame:
    """What is known of unchanged partitions, as rows of the shape OUTCOMES."""
    known = {name: F.col(column) for name, column in _OF_OUTCOME.items()}
    known["records_unread"] = F.lit(0).cast("bigint")  # with --compare records nothing is taken over
    known["file"] = F.lit(None).cast(spark_schema(OUTCOMES)["file"].dataType)
    return kept.select(*(known.get(name, F.col(name)).alias(name) for name in OUTCOMES.names))


def fingerprint_rows(outcomes: DataFrame, now: DataFrame) -> DataFrame:
    """The rows of `partition_fingerprints`, without `run_id`.

    Args:
        outcomes: rows of the shape OUTCOMES, of all partitions.
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
    is_open, is_quiet = _any_row(NEVER_TAKEN_OVER), ~_any_row(tuple(t.name for t in COUNTED if t.name not in QUIET_TABLES))
    is_quiet = is_quiet & (F.size("found") == 0)
    kept = {"fingerprint": ~is_open, "quiet_fingerprint": is_quiet & ~is_open}
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
        looks: of `replica_logs`: what the listing says now of replicas, as of `times_of_replicas`.
    """
    kept = rows.drop("run_id").join(F.broadcast(gone), on=list(KEYS), how="left_anti")
    if looks is None:
        return kept
    names = kept.columns
    moving = {name: f"now_{name}" for name in _TIMES}
    joined = kept.join(looks, on=[*KEYS, *_REPLICA], how="left")
    return joined.select(*(F.col(moving.get(name, name)).alias(name) for name in names))


def times_of_replicas(listed: DataFrame) -> DataFrame:
    """When each replica was collected, when its CRCs were verified, and when its end was looked at again, by the listing."""
    look = F.col("look")
    return listed.where(look.directory.isNotNull()).select(
        *KEYS,
        "broker_id",
        look.log_dir.alias("log_dir"),
        look.directory.alias("directory"),
        *(F.timestamp_millis(look[moment]).alias(f"now_{name}") for name, moment in _TIMES.items()),
    )
