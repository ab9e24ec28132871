"""Files of a table that a power cut, a full disk or a person left empty, torn or missing: which, and what of the table is whole.

A file of Delta's log is written once and never again, but nothing makes sure that its bytes are on the disk when its name is.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from replica_audit.storage.warehouse.place import LOG

_STAGED = "_staged_commits"
# of Spark such as .00000000000000000007.json.4c2fb818-8be3-41d1-a66a-72282f397b7c.tmp, and the checksum of it; of delta-rs
# such as 00000000000000000007.json#1
_TEMPORARY = re.compile(r"\.{1,2}\d{20}\..*\.tmp(\.crc)?|(\d{20}\..*|_last_checkpoint)#\d+")


def temporary_files(table: Path, seconds: float) -> tuple[Path, ...]:
    """The temporary files of a table's log that were written so many seconds ago or earlier: who wrote them is gone."""
    return tuple(path for path in _entries(table / LOG) if _TEMPORARY.fullmatch(path.name) and _age(path) >= seconds)


def is_begun(table: Path) -> bool:
    """Whether a directory is what a table begins with: a log without an entry and a checkpoint, and no file of data."""
    if not (table / LOG).is_dir() or any(table.glob("*.parquet")):
        return False
    return not any(path.suffix in (".json", ".crc", ".parquet") and not path.name.startswith(".") for path in _entries(table / LOG))


def clear_begun(table: Path, seconds: float) -> bool:
    """Clear away a table that was begun and got no first commit, if nothing was done in it for so many seconds.

    Only empty directories and temporary files go: what another process makes of the table meanwhile stays.

    Returns:
        Whether it is gone.
    """
    folders = (table / LOG / _STAGED, table / LOG)
    if any(_age(path) < seconds for path in (*folders, *_entries(table / LOG)) if path.exists()):
        return False
    for path in temporary_files(table, seconds):
        path.unlink(missing_ok=True)
    for path in folders:
        with suppress(OSError):  # not there, or not empty
            path.rmdir()
    return not (table / LOG).exists()


def _entries(folder: Path) -> Iterator[Path]:
    if folder.is_symlink():  # no log of a table, and nothing behind it is ours to remove
        return
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return


def _age(path: Path) -> float:
    """Seconds since a file or directory was changed; less than none if it is gone meanwhile."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return -1.0


_VERSION = re.compile(r"(\d{20})\.(.+)")
_HIDDEN = re.compile(r"\.(\d{20})\.(json|crc|checkpoint.*)\.crc")  # checksums that Hadoop keeps of the files of the log
_LAST_CHECKPOINT = "_last_checkpoint"
_KINDS = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file, by its path below the table, and what is wrong with it: `is empty`."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLog:
    """A table's log.

    Args:
        whole_to: the last version up to which nothing is damaged; None if there is none.
        latest: the last version that has a name.
        damaged: what is damaged, the oldest first.
        beyond: the names of files in the log that are damaged, or of versions after `whole_to`: without them the table is as of then.
    """

    whole_to: int | None
    latest: int | None
    damaged: tuple[DamagedFile, ...] = ()
    beyond: tuple[str, ...] = ()


def table_log(table: Path) -> TableLog:
    """Look at a table's log: the newest checkpoint that can be read, and every entry after it.

    Raises:
        OSError: it cannot be listed.
    """
    files = _LogFiles.of(table / LOG)
    damaged = list(irregular_log_files(table))
    irregular = [Path(file.path).name for file in damaged]
    base, useless = -1, []
    for version, names in sorted(files.checkpoints.items(), reverse=True):
        reasons = [(name, why) for name in names if (why := _parquet_or_json_damage(table / LOG / name))]
        if not reasons:
            base = version
            break
        damaged += (DamagedFile(path=f"{LOG}/{name}", why=why) for name, why in reasons)
        useless += names
    whole_to = base if base >= 0 else None
    newest = max((*files.entries, *files.sums), default=-1)
    for version in range(base + 1, newest + 1):
        name = f"{version:020}.json"
        why = entry_damage(table / LOG / name) if version in files.entries else "is missing"
        if why is not None:
            damaged.append(DamagedFile(path=f"{LOG}/{name}", why=why))
            break
        whole_to = version
    beyond = irregular + useless + [name for version, name in files.all if version > (-1 if whole_to is None else whole_to)]
    if useless and (table / LOG / _LAST_CHECKPOINT).exists():
        beyond.append(_LAST_CHECKPOINT)
    latest = newest if newest >= 0 else None
    return TableLog(whole_to=whole_to, latest=latest, damaged=tuple(dict.fromkeys(damaged)), beyond=tuple(dict.fromkeys(beyond)))


def first_irregular(directory: Path, paths: Iterable[str]) -> DamagedFile | None:
    """The first of some files of a directory that is no regular file: to open a pipe may take for ever. A missing one is passed over.

    Raises:
        OSError: one cannot be looked at.
    """
    return next((DamagedFile(path=path, why=why) for path in paths if (why := _irregularity(directory / path))), None)


def irregular_log_files(table: Path) -> tuple[DamagedFile, ...]:
    """What is neither a regular file nor a folder in a table's log.

    Raises:
        OSError: the log cannot be listed.
    """
    try:
        with os.scandir(table / LOG) as entries:
            odd = sorted(one.name for one in entries if not one.is_file(follow_symlinks=False) and not one.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return ()
    return tuple(DamagedFile(path=f"{LOG}/{name}", why=why) for name in odd if (why := _irregularity(table / LOG / name)))


def _irregularity(path: Path) -> str | None:
    """What a name stands for that is no regular file; None if it is one, or nothing is there."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return None
    kind = next((name for is_such, name in _KINDS if is_such(mode)), "a device")
    return f"is {kind}, not a file"


def entry_damage(path: Path) -> str | None:
    """What is wrong with an entry of a log; None: nothing.

    Raises:
        OSError: it cannot be read.
    """
    if why := _irregularity(path):
        return why
    content = path.read_bytes()
    if not content:
        return "is empty, as a power cut leaves it"
    try:
        is_whole = all(isinstance(json.loads(line), dict) for line in content.splitlines() if line.strip(b" "))
    except ValueError:
        is_whole = False
    return None if is_whole else f"is torn or overwritten ({len(content)} bytes, no whole lines of JSON)"


def data_damage(
    table: Path, version: int | None = None, known: dict[str, str | None] | None = None, log: Path | None = None
) -> Iterator[DamagedFile]:
    """The data files of a version that are damaged; each is read whole.

    Args:
        table: its directory.
        version: None for the latest.
        known: what is known of files by their paths, and is added to.
        log: the directory that holds the log to go by; None for the table's own.

    Raises:
        DeltaError: the log cannot be read as of that version.
    """
    files = (
        pa.table(DeltaTable(str(log or table), version=version).get_add_actions(flatten=True)).select(["path", "size_bytes"]).to_pylist()
    )
    known = {} if known is None else known
    for file in files:
        path = unquote(file["path"])
        if path not in known:
            known[path] = _data_file_damage(table / path, file["size_bytes"])
        if why := known[path]:
            yield DamagedFile(path=path, why=why)


def first_damage(table: Path) -> DamagedFile | None:
    """The first file of a table that is damaged; None if none is, or it cannot be seen."""
    try:
        if not (table / LOG).is_dir():
            return None
        damaged = table_log(table).damaged
        return damaged[0] if damaged else next(data_damage(table), None)
    except (OSError, DeltaError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogFiles:
    entries: frozenset[int]
    sums: frozenset[int]
    checkpoints: dict[int, list[str]] = field(default_factory=dict)
    all: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def of(cls, log: Path) -> _LogFiles:
        entries, sums = set(), set()
        checkpoints: dict[int, list[str]] = {}
        every = []
        for name in sorted(path.name for path in log.iterdir()):
            if match := _VERSION.fullmatch(name):
                version, kind = int(match[1]), match[2]
                if kind == "json":
                    entries.add(version)
                elif kind == "crc":
                    sums.add(version)
                elif kind.startswith("checkpoint."):
                    checkpoints.setdefault(version, []).append(name)
                else:
                    continue
                every.append((version, name))
            elif match := _HIDDEN.fullmatch(name):
                every.append((int(match[1]), name))
        return cls(entries=frozenset(entries), sums=frozenset(sums), checkpoints=checkpoints, all=every)


def _parquet_or_json_damage(path: Path) -> str | None:
    return entry_damage(path) if path.suffix == ".json" else _irregularity(path) or _parquet_damage(path)


def _data_file_damage(path: Path, size_bytes: int) -> str | None:
    if why := _irregularity(path):
        return why
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "is missing"
    if size != size_bytes:
        return f"has {size} of {size_bytes} bytes" if size else "is empty, as a power cut leaves it"
    return _parquet_damage(path)


def _parquet_damage(path: Path) -> str | None:
    """What is wrong with a Parquet file, by its end, and by the checksums of its pages."""
    if not path.stat().st_size:
        return "is empty, as a power cut leaves it"
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for _batch in file.iter_batches():
                pass
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read: {' '.join(str(error).split())[:200].rstrip('.')}"
    return None
