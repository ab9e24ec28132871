"""A run's rows of `audit_runs`: written when it begins, and again when it is complete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from replica_audit.pipeline.request import AuditRequest
from replica_audit.program import versions
from replica_audit.rows import AUDIT_RUNS
from replica_audit.rows.runs import NO_CLUSTER
from replica_audit.storage.warehouse.holds import Attempt
from replica_audit.storage.warehouse.tables import DeltaWarehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """The rows of one run about some clusters, by their ids."""

    warehouse: DeltaWarehouse
    request: AuditRequest
    clusters: tuple[str, ...]

    def begin(self, attempt: Attempt, replace: bool) -> None:
        """Write that the run has begun."""
        self.write(attempt, {}, {cluster: {} for cluster in self.clusters or (NO_CLUSTER,)}, replace=replace)

    def write(
        self, attempt: Attempt, of_run: Mapping[str, object], of_cluster: Mapping[str, Mapping[str, object]], *, replace: bool
    ) -> None:
        """Write what is known when the run begins, and what `of_run` and `of_cluster`, by cluster id, say besides."""
        request = self.request
        common = {
            "run_id": request.run_id,
            "started_at": attempt.started_at,
            "status": attempt.status,
            "attempt": attempt.number,
            "holder": asdict(attempt.holder) if attempt.holder else None,
            "alive_at": attempt.alive_at,
            "run_date": request.run_date,
            "inputs": list(request.inputs),
            "config": json.dumps(request.settings.model_dump(), sort_keys=True),
            "versions": {"spark": self.warehouse.spark.version, **dict(versions("delta-spark", "pyarrow"))},
            **of_run,
        }
        rows = [{**common, "cluster_id": cluster_id, **known} for cluster_id, known in of_cluster.items()]
        frame = self.warehouse.frame(AUDIT_RUNS, rows)
        self.warehouse.write_run(AUDIT_RUNS, frame, request.run_id, replace=replace, fence=attempt.version)
