"""Whose files are collected: the log directories that there are, and the broker that they are of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replica_audit.collect.request import CollectRequest
from replica_audit.errors import InputError, MetadataError, UsageError
from replica_audit.files.opened import confine, release
from replica_audit.formats.collection.manifest import Unread
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.server_properties import ServerProperties, server_properties
from replica_audit.formats.log_dir.small_files import SETTINGS_LIMIT, whole_content

_EMPTY = f"is empty, as where its disk is not mounted: a broker has {log_dir.META_PROPERTIES} in each of its log directories"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One broker. `log_dirs` can be listed and are not empty, `unread` are the others; `cluster_id` is None where no file says it."""

    broker_id: int
    cluster_id: str | None
    log_dirs: tuple[Path, ...]
    unread: tuple[Unread, ...]


def origin_of(request: CollectRequest) -> Origin:
    """Find out whose files the request names. From here on no link is followed out of the log directories, unless told otherwise.

    Raises:
        UsageError: a directory is none, or none can be read; they are of several brokers, or nothing says of which.
    """
    said = _properties(request.server_properties) if request.server_properties else None
    paths, unread = [], []
    for path in _named(request, said):
        try:
            with os.scandir(path) as entries:
                if next(entries, None) is None:
                    unread.append(Unread(path=str(path), kind="directory", reason=_EMPTY))
                else:
                    paths.append(path)
        except OSError as error:
            unread.append(cannot_list(path, error))
    if not paths:
        raise UsageError(f"no log directory can be read: {'; '.join(f'{one.path}: {one.reason}' for one in unread)}")
    (release if request.follow_links else confine)(paths)
    for path in paths:
        _refuse_parent(path)
    broker_id, cluster_id = _identity(request, paths, said)
    return Origin(broker_id=broker_id, cluster_id=cluster_id, log_dirs=tuple(paths), unread=tuple(unread))


def refuse_file_inside(flag: str, file: Path, log_dirs: Iterable[Path]) -> None:
    """Refuse to write a file into a log directory.

    Raises:
        UsageError: it would be in one.
    """
    real = Path(os.path.realpath(file))
    for path in log_dirs:
        if real.is_relative_to(os.path.realpath(path)):
            raise UsageError(f"{flag} {file}: lies in the log directory {path}; give a file outside of it")


def _refuse_parent(path: Path) -> None:
    """Refuse a folder of log directories, whose names look like those of replicas: `data-0`."""
    if os.path.lexists(path / log_dir.META_PROPERTIES):
        return
    below = [found.parent for found in sorted(path.glob(f"*/{log_dir.META_PROPERTIES}"))]
    if below:
        flags = " ".join(f"--log-dir {one}" for one in below)
        raise UsageError(f"--log-dir {path}: is not a log directory, but holds {'some' if len(below) > 1 else 'one'}; give {flags}")


def cannot_list(path: Path, error: OSError) -> Unread:
    """A directory that cannot be listed."""
    return Unread(path=str(path), kind="directory", reason=error.strerror or str(error))


def _named(request: CollectRequest, said: ServerProperties | None) -> Iterator[Path]:
    """The directories that the request names, each once."""
    by_real: dict[str, Path] = {}
    for path in [Path(path) for path in said.log_dirs] if said else [path.expanduser().absolute() for path in request.log_dirs]:
        if any("\ud800" <= character <= "\udfff" for character in str(path)):
            raise UsageError(f"log directory {str(path)!r}: the name is not UTF-8")
        if said is None and not path.is_dir():
            raise UsageError(f"--log-dir {path}: {'is not a directory' if os.path.lexists(path) else 'no such directory'}")
        twin = by_real.setdefault(os.path.realpath(path), path)
        if twin is not path:
            raise UsageError(f"{twin} and {path} are one directory; name it once")
        yield path


def _identity(request: CollectRequest, paths: Sequence[Path], said: ServerProperties | None) -> tuple[int, str | None]:
    """The broker's id and its cluster's, which everything that says them must agree on."""
    metas = [(path, meta) for path in paths if (meta := _meta_properties(path))]
    brokers = {meta.broker_id: path / log_dir.META_PROPERTIES for path, meta in metas if meta.broker_id is not None}
    clusters = {meta.cluster_id: path / log_dir.META_PROPERTIES for path, meta in metas if meta.cluster_id is not None}
    if said and said.broker_id is not None:
        brokers.setdefault(said.broker_id, request.server_properties or Path())
    if request.broker_id is not None:
        brokers.setdefault(request.broker_id, Path("--broker-id"))
    for what, found in (("broker", brokers), ("cluster", clusters)):
        if len(found) > 1:
            told = " and ".join(f"{path} says {what} {which}" for which, path in found.items())
            raise UsageError(f"{told}: collect the log directories of one broker at a time")
    if not brokers:
        raise UsageError(f"which broker is it? There is no {log_dir.META_PROPERTIES} in {paths[0]} that says; give --broker-id")
    return next(iter(brokers)), next(iter(clusters), None)


def _properties(path: Path) -> ServerProperties:
    try:
        return server_properties(whole_content(path, SETTINGS_LIMIT, may_be_pipe=True))
    except OSError as error:
        raise UsageError(f"--server-properties {path}: {error.strerror or error}") from None
    except MetadataError as error:
        where = f" at line {error.line}" if error.line else ""
        raise UsageError(f"--server-properties {path}: {error.reason}{where}; or give every --log-dir") from None


def _meta_properties(path: Path) -> checkpoints.MetaProperties | None:
    try:
        return checkpoints.meta_properties(whole_content(path / log_dir.META_PROPERTIES))
    except (OSError, InputError):
        return None  # told when it is copied
