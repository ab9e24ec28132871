"""Finding clusters and brokers below the inputs. Only folders and the few files that name them are looked at here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from replica_audit.errors import InputError, MetadataError, UsageError
from replica_audit.formats import checkpoints, cluster_metadata, log_dir
from replica_audit.model import Problem

_DEPTH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFolder:
    """A folder below which one broker's files lie."""

    path: Path
    broker_id: int
    cluster_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One cluster in the input. `head` is None where there is no usable cluster-metadata.json."""

    path: Path
    cluster_id: str
    brokers: tuple[BrokerFolder, ...]
    metadata_path: Path | None = None
    head: cluster_metadata.ClusterMetadata | None = None


@dataclass(slots=True)
class Found:
    """Everything below the inputs. `problems` are those that belong to no broker's files, with their cluster id if there is one."""

    roots: list[Root] = field(default_factory=list)
    problems: list[tuple[str | None, Problem]] = field(default_factory=list)


def discover(inputs: Sequence[str], metadata: Path | None = None) -> Found:
    """Find every cluster.

    Args:
        inputs: directories, or `file:` URIs: a root with a folder per broker, a folder of such roots, or one broker's folder.
        metadata: a cluster-metadata.json given apart; it belongs to the only root, or to the one with its cluster id.

    Raises:
        UsageError: two roots hold the same cluster, or `metadata` fits none, or an input is of a kind that cannot be read.
    """
    found = Found()
    for given in inputs:
        path = _local(given)
        problem = _unusable(path)
        if problem:
            found.problems.append((None, problem))
            continue
        candidates = list(_roots(path))
        if not candidates:
            found.problems.append((None, _nothing_there(path)))
        for root, folders in candidates:
            _add(found, root, folders, metadata)
    _refuse_twins(found.roots)
    if metadata is not None and found.roots and not any(root.metadata_path == metadata for root in found.roots):
        raise UsageError(f"--cluster-metadata {metadata}: its cluster_id is that of none of the inputs")
    return found


def _local(given: str) -> Path:
    if given.startswith("file:"):
        return Path(given.removeprefix("file:").replace("///", "/", 1)).absolute()
    if "://" in given:
        raise UsageError(f"--input {given}: only local directories and file: URIs can be read; copy the files or mount the store")
    return Path(given).expanduser().absolute()


def _unusable(path: Path) -> Problem | None:
    """Why an input cannot be looked into."""
    if not path.exists():
        return Problem(path=str(path), kind="input", code="no-such-path", detail="does not exist", remedy="check the path given to --input")
    if not path.is_dir():
        remedy = "give the directory that holds one folder per broker"
        return Problem(path=str(path), kind="input", code="not-a-directory", detail="is not a directory", remedy=remedy)
    if not os.access(path, os.R_OK | os.X_OK):
        remedy = "give the audit's user read permission on it"
        return Problem(path=str(path), kind="input", code="cannot-read", detail="Permission denied", remedy=remedy)
    return None


def _nothing_there(path: Path) -> Problem:
    empty = not any(path.iterdir())
    return Problem(
        path=str(path),
        kind="input",
        code="nothing-recognised",
        detail="the directory is empty" if empty else "no broker's folder, no log directory and no text of kafka-dump-log in it",
        remedy="give a directory with one folder per broker (broker-1, broker-2, ...), each with the broker's log directories below it",
    )


def _children(path: Path) -> list[Path]:
    try:
        return sorted(child for child in path.iterdir() if child.is_dir())
    except OSError:
        return []


def _roots(path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """(root, its broker folders) for a path that is a root, a broker's folder, or a folder of roots."""
    if _is_log_dir(path):
        yield path, [path]
        return
    folders = _broker_folders(path)
    if folders:
        yield path, folders
        return
    of_roots = [(child, _broker_folders(child)) for child in _children(path)]
    if any(folders for _child, folders in of_roots):
        yield from ((child, folders) for child, folders in of_roots if folders)
        return
    named = [child for child in _children(path) if next(_meta_properties(child), None) is not None]
    if named:
        yield path, named
    elif log_dir.is_broker_folder(path.name) is not None and _children(path):
        yield path, [path]


def _broker_folders(path: Path) -> list[Path]:
    """The folders of a root: those named like brokers; with a cluster-metadata.json beside them also those that hold a meta.properties."""
    described = (path / log_dir.CLUSTER_METADATA).is_file()
    return [
        child
        for child in _children(path)
        if log_dir.is_broker_folder(child.name) is not None or (described and next(_meta_properties(child), None) is not None)
    ]


def _is_log_dir(path: Path) -> bool:
    if any((path / name).is_file() for name in (log_dir.META_PROPERTIES, *log_dir.OFFSET_CHECKPOINTS)):
        return True
    return any(
        log_dir.replica_directory(child.name) and any(log_dir.segment_name(file.name) for file in child.iterdir())
        for child in _children(path)
        if os.access(child, os.R_OK | os.X_OK)
    )


def _meta_properties(folder: Path, depth: int = _DEPTH) -> Iterator[checkpoints.MetaProperties]:
    """Every readable meta.properties in a folder and a few levels below; replica directories are not entered."""
    file = folder / log_dir.META_PROPERTIES
    if file.is_file():
        with suppress(InputError, OSError):  # reported when the broker's files are read
            yield checkpoints.meta_properties(file.read_bytes())
        return
    if depth > 0 and not (folder / log_dir.EPOCH_CHECKPOINT).exists():
        for child in _children(folder):
            yield from _meta_properties(child, depth - 1)


def _add(found: Found, path: Path, folders: list[Path], metadata: Path | None) -> None:
    metadata_path = path / log_dir.CLUSTER_METADATA
    head = _head(metadata_path)
    if metadata is not None:
        given = _head(metadata)
        if given is None:
            raise UsageError(f"--cluster-metadata {metadata}: {_why_not(metadata)}")
        ids = {meta.cluster_id for folder in folders for meta in _meta_properties(folder)}
        if given.cluster_id in ids or given.cluster_id is None or (head and head.cluster_id == given.cluster_id):
            metadata_path, head = metadata, given
    brokers = [broker for folder in folders if (broker := _broker(found, folder)) is not None]
    known = Counter(broker.cluster_id for broker in brokers if broker.cluster_id)
    most = min(known, key=lambda cluster: (-known[cluster], cluster)) if known else None
    cluster_id = (head.cluster_id if head else None) or most or str(path)
    kept = []
    for broker in brokers:
        if broker.cluster_id in (None, cluster_id):
            kept.append(broker)
        else:
            found.problems.append((cluster_id, _foreign(broker, cluster_id)))
    if kept:
        found.roots.append(
            Root(
                path=path,
                cluster_id=cluster_id,
                brokers=tuple(kept),
                metadata_path=metadata_path if metadata_path.is_file() else None,
                head=head,
            )
        )


def _broker(found: Found, folder: Path) -> BrokerFolder | None:
    said = next(_meta_properties(folder), None)
    named = log_dir.is_broker_folder(folder.name)
    broker_id = said.broker_id if said and said.broker_id is not None else named
    if broker_id is None:
        detail = "no meta.properties below it, and its name is not that of a broker (broker-3, broker=3, 3)"
        remedy = "rename the folder to broker-ID or copy meta.properties too"
        found.problems.append((None, Problem(path=str(folder), kind="directory", code="unknown-broker", detail=detail, remedy=remedy)))
        return None
    if named is not None and named != broker_id:
        detail = f"the folder is named for broker {named}, its meta.properties says {broker_id}, which is believed"
        remedy = "check that the folders were not mixed up when they were copied"
        found.problems.append(
            (
                said.cluster_id if said else None,
                Problem(path=str(folder), kind="directory", code="broker-id-mismatch", detail=detail, remedy=remedy),
            )
        )
    return BrokerFolder(path=folder, broker_id=broker_id, cluster_id=said.cluster_id if said else None)


def _foreign(broker: BrokerFolder, cluster_id: str) -> Problem:
    return Problem(
        path=str(broker.path),
        kind="directory",
        code="cluster-id-mismatch",
        detail=f"broker {broker.broker_id} belongs to cluster {broker.cluster_id}, the others to {cluster_id}; it is left out",
        remedy="keep the brokers of one cluster in a folder of their own",
    )


def _head(path: Path) -> cluster_metadata.ClusterMetadata | None:
    try:
        return cluster_metadata.parse(path.read_bytes())[0]
    except (MetadataError, OSError):
        return None  # reported when its partitions are read


def _why_not(path: Path) -> str:
    try:
        cluster_metadata.parse(path.read_bytes())
    except MetadataError as error:
        return error.reason
    except OSError as error:
        return error.strerror or str(error)
    return "cannot be used"


def _refuse_twins(roots: Sequence[Root]) -> None:
    first: dict[str, Root] = {}
    for root in roots:
        twin = first.setdefault(root.cluster_id, root)
        if twin is not root:
            raise UsageError(
                f"{twin.path} and {root.path} both hold cluster {root.cluster_id}: audit them in runs of their own, "
                "for one run compares the replicas of one moment"
            )
