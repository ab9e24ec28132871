"""An audit as a call of a program: of a notebook, a platform's job, a scheduler. The session that it is given stays as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from replica_audit import acknowledged as acknowledgements
from replica_audit import config, pipeline
from replica_audit.config import Settings
from replica_audit.engine.releases import is_connect
from replica_audit.errors import UsageError
from replica_audit.progress import TellsEvent
from replica_audit.protocol.verdict.acknowledgement import Acknowledgements
from replica_audit.report.facts.run_report import Report
from replica_audit.rows import TABLES
from replica_audit.run_ids import new_run_id, refuse_run_id
from replica_audit.storage.warehouse.faults import check
from replica_audit.storage.warehouse.place import make_warehouse, warehouse_place
from replica_audit.storage.warehouse.tables import DeltaWarehouse

__all__ = ["AuditResult", "Settings", "audit"]

_SPARKS = ("3.5", "4.0", "4.1", "4.2")  # whose rows tools/spark_versions.py compares

_TABLES = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """A run that is complete.

    Args:
        run_id: its name.
        exit_code: what the command would end with: 0 nothing found, 1 findings, 2 nothing could be read, 3 something could not be compared.
        warehouse: where its tables are, as a path, a URI or `catalog.schema`.
        report: what a summary shows.
        spark: the session of its frames.
    """

    run_id: str
    exit_code: int
    warehouse: str
    report: Report
    spark: SparkSession

    def rows(self, table: str) -> DataFrame:
        """The run's rows of a table, `replica_verdicts` say; docs/tables.md has every table.

        Raises:
            UsageError: there is no such table.
        """
        if table not in _TABLES:
            raise UsageError(f"there is no table {table}; there are: {', '.join(sorted(_TABLES))}")
        found = DeltaWarehouse(self.spark, self.warehouse).read(_TABLES[table])
        return found.where(found["run_id"] == self.run_id)


def audit(
    spark: SparkSession,
    inputs: str | Path | Sequence[str | Path],
    warehouse: str | Path,
    *,
    settings: Settings | Mapping[str, Any] | None = None,
    run_id: str | None = None,
    run_date: date | None = None,
    cluster_metadata: str | Path | None = None,
    acknowledged: Acknowledgements | str | Path | None = None,
    take_over: bool = False,
    tell: TellsEvent | None = None,
) -> AuditResult:
    """Audit clusters, and write what is found to Delta tables.

    Args:
        spark: a session with Delta. None of its settings is changed, nor what else runs in it; a session of Spark Connect, which has no
            second one beside it, has two settings changed until the audit ends, if there is much to read.
        inputs: directories with one folder per broker, or folders of such directories, as of `audit --input`.
        warehouse: where the tables are: a directory, a URI, or `catalog.schema`.
        settings: as of conf/audit.yaml, by name or as `Settings`; None: those of the environment, and defaults.
        run_id: name of the run; a run of the same name is replaced. None: a new one.
        run_date: date that the run is for; None: today, UTC.
        cluster_metadata: a cluster-metadata.json to use instead of the one beside the broker folders.
        acknowledged: known findings, or the YAML file that has them.
        take_over: take the run over even if another process seems to be making it.
        tell: takes the progress, event by event.

    Raises:
        UsageError: this is another Spark than 3.5 to 4.2, or 3.5 without distutils; the inputs contradict each other, nothing in them can
            be audited, or another process makes the run.
        ConfigError: a setting, or the file of known findings, is wrong.
        OutputError: the warehouse or Spark's working directory cannot be written, or rows were lost on the way.
    """
    kind: type[Any] = type(spark)
    if not (issubclass(kind, SparkSession) or is_connect(spark)):
        raise UsageError(f"an audit needs a session of Spark; this is of the class {kind.__name__}")
    refuse_untried(spark.version)
    refuse_without_distutils(spark.version)
    run_id, run_date = run_id or new_run_id(), run_date or datetime.now(UTC).date()
    refuse_run_id(run_id)
    if not isinstance(acknowledged, Acknowledgements):
        acknowledged = acknowledgements.load(None if acknowledged is None else Path(acknowledged), run_date)
    request = pipeline.AuditRequest(
        inputs=tuple(map(str, [inputs] if isinstance(inputs, str | Path) else inputs)),
        warehouse=make_warehouse(str(warehouse)),
        settings=settings if isinstance(settings, Settings) else config.load(None, settings or {}),
        run_id=run_id,
        run_date=run_date,
        metadata=None if cluster_metadata is None else Path(cluster_metadata).absolute(),
        take_over=take_over,
        acknowledged=acknowledged,
    )
    check((warehouse_place(request.warehouse),))
    report = pipeline.audit(spark, request, tell or (lambda _event: None))
    return AuditResult(run_id=run_id, exit_code=report.exit_code, warehouse=request.warehouse, report=report, spark=spark)


def refuse_without_distutils(version: str) -> None:
    """Refuse Spark 3.5 where it cannot make a frame: it imports what Python has no more from 3.12 on, unless setuptools brings it.

    Raises:
        UsageError: so it is.
    """
    if version.startswith("3.") and find_spec("distutils") is None:
        raise UsageError(
            f"Spark {version} needs distutils, which Python {python_version()} lacks: pip install setuptools, also on executors"
        )


def refuse_untried(version: str) -> None:
    """Refuse a release of Spark on which no audit was compared with others.

    Raises:
        UsageError: it is one.
    """
    if ".".join(version.split(".")[:2]) not in _SPARKS:
        raise UsageError(
            f"Spark {version} cannot run an audit: use Spark {', '.join(_SPARKS[:-1])} or {_SPARKS[-1]}, or `triage`, which needs none"
        )
