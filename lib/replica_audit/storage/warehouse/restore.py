"""A damaged warehouse as of the last version of each table that is whole: which versions these are, and how it would read.

Nothing of a table is removed. Files of its log that cannot be read, or tell of versions after them, are renamed into a folder beside it,
`_damaged` in the table's directory, which no reader of Delta looks into.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from replica_audit.errors import OutputError
from replica_audit.rows import FORMER_TABLES, TABLES
from replica_audit.storage.warehouse.arrow_tables import ArrowTables, Equal
from replica_audit.storage.warehouse.damage import DamagedFile, TableLog, data_damage, is_begun, table_log
from replica_audit.storage.warehouse.place import LOG
from replica_audit.storage.warehouse.reader import WarehouseTables, arrow_dataset

ASIDE = "_damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeVersion:
    """The last version of a damaged table that is whole.

    Args:
        table: its name.
        version: the version; None if none is whole.
        log_to: the version that the table has once files of its log are set aside; the same, or later.
        damaged: what is damaged.
        set_aside: names of files of the log that are in the way.
    """

    table: str
    version: int | None
    log_to: int | None
    damaged: tuple[DamagedFile, ...]
    set_aside: tuple[str, ...]


class RestoredTables(ArrowTables):
    """The tables of a local warehouse as they would be once every damaged one is as of its last whole version. Changes nothing.

    While entered it keeps copies of the logs of damaged tables, without what is in the way.
    """

    def __init__(self, location: str, warehouse: Path) -> None:
        """Nothing is looked at yet."""
        super().__init__(location)
        self._warehouse, self._kept = warehouse, WarehouseTables(location)
        self._exit = ExitStack()
        self._logs = Path()
        self.damaged: Mapping[str, WholeVersion] = {}

    def __enter__(self) -> RestoredTables:
        """Look at every table; each data file of the latest version is read whole.

        Raises:
            OSError: a table cannot be looked at.
        """
        self._logs = Path(self._exit.enter_context(tempfile.TemporaryDirectory(prefix="replica-audit-logs-")))
        found = {}
        for table in (*TABLES, *FORMER_TABLES):
            directory = self._warehouse / table.name
            if (directory / LOG).is_dir() and not is_begun(directory) and (whole := self._whole_version(table.name)) is not None:
                found[table.name] = whole
        self.damaged = found
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove the copies."""
        self._exit.close()

    def dataset(self, table: str, equal: Equal | None = None, names: Sequence[str] | None = None) -> ds.Dataset | None:
        """The table as it would be."""
        whole = self.damaged.get(table)
        if whole is None:
            return self._kept.dataset(table, equal, names)
        if whole.version is None:
            return None
        with self._reading(table):
            return arrow_dataset(DeltaTable(str(self._logs / table), version=whole.version), self._warehouse / table, equal)

    def _whole_version(self, name: str) -> WholeVersion | None:
        """The last version of a table that is whole; None if that is its latest, and nothing is in the way."""
        directory = self._warehouse / name
        log = table_log(directory)
        self._copy_log(directory, log)
        damaged, known = list(log.damaged), dict[str, str | None]()
        version = log.whole_to
        while version is not None:
            try:
                lost = list(data_damage(directory, version, known, log=self._logs / name))
            except DeltaError:  # its log goes no further back
                version = None
                break
            if not lost:
                break
            damaged += (file for file in lost if file not in damaged)
            version = version - 1 if version else None
        if not damaged and not log.beyond:
            return None
        return WholeVersion(table=name, version=version, log_to=log.whole_to, damaged=tuple(damaged), set_aside=log.beyond)

    def _copy_log(self, directory: Path, log: TableLog) -> None:
        """Copy a log without what is in the way, so that it can be read as if that were set aside."""
        copy = self._logs / directory.name / LOG
        copy.mkdir(parents=True)
        for path in (directory / LOG).iterdir():
            if path.is_file() and path.name not in log.beyond and not path.name.startswith("."):
                shutil.copyfile(path, copy / path.name)


def set_aside(directory: Path, names: Sequence[str]) -> None:
    """Rename files of a table's log into the folder beside it. None is replaced there: one of the same name gets a number.

    Raises:
        OutputError: the folder is a link, or a file cannot be renamed.
    """
    aside = directory / ASIDE
    try:
        aside.mkdir(mode=0o700, exist_ok=True)
        if aside.is_symlink():
            raise OutputError(f"{aside} is a link, and nothing is renamed through one: remove it, then start maintain --restore again")
        for name in names:
            place, number = aside / name, 0
            while place.exists() or place.is_symlink():
                number += 1
                place = aside / f"{name}.{number}"
            (directory / LOG / name).rename(place)
    except OSError as error:
        raise OutputError(
            f"{error.filename}: {os.strerror(error.errno or 0)}; make it writable, then start maintain --restore again"
        ) from None
