"""An audit on Spark, from folders to tables and a report."""

from replica_audit.pipeline.request import AuditRequest
from replica_audit.pipeline.run import audit, written_run

__all__ = ["AuditRequest", "audit", "written_run"]
