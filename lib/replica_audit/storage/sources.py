"""Finding clusters and brokers below the inputs. Only folders and the few files that name them are looked at here.

A broker is known by the `meta.properties` below its folder, whatever the folder is called; a folder without one by its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from replica_audit.errors import InputError, MetadataError, UsageError
from replica_audit.formats import checkpoints, cluster_metadata, log_dir
from replica_audit.model import Problem

_DEPTH = 7
_LOOKED_AT = 20_000  # directories below one input, replicas left out: a bound for what is no copy of brokers
_ARCHIVES = (".tar", ".gz", ".tgz", ".zip", ".zst", ".xz", ".bz2", ".7z")


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
        tree = _Tree(found)
        roots = list(tree.roots(path))
        if not roots:
            found.problems.append((None, _nothing_there(path)))
        for root, folders in roots:
            _add(found, root, folders, tree)
    _refuse_twins(found.roots)
    if metadata is not None:
        _give_metadata(found, metadata)
    return found


def _local(given: str) -> Path:
    if not given:
        raise UsageError("--input: empty; give a directory")
    if given.startswith("file:"):
        parts = urlsplit(given)
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"--input {given}: names another host; give file:///path")
        return Path(unquote(parts.path)).absolute()
    if "://" in given:
        raise UsageError(f"--input {given}: only local directories and file: URIs can be read; copy the files or mount the store")
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"--input {given}: {error}") from None


def _unusable(path: Path) -> Problem | None:
    """Why an input cannot be looked into."""

    def problem(code: str, detail: str, remedy: str) -> Problem:
        shown = str(path).encode("utf-8", "replace").decode()
        return Problem(path=shown, kind="input", code=code, detail=detail, remedy=remedy)

    try:
        is_directory = stat.S_ISDIR(path.stat().st_mode)
        if is_directory:
            next(path.iterdir(), None)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            remedy = "give the audit's user read permission on it and on the folders above it"
            return problem("cannot-read", error.strerror or str(error), remedy)
        return problem("no-such-path", "does not exist", "check the path given to --input")
    if not is_directory:
        return problem("not-a-directory", "is not a directory", "give the directory that holds one folder per broker")
    if not _printable(str(path)):
        return problem("name-not-utf8", "the name is not UTF-8", "rename the directory")
    return None


def _nothing_there(path: Path) -> Problem:
    empty = next(path.iterdir(), None) is None
    return Problem(
        path=str(path),
        kind="input",
        code="nothing-recognised",
        detail="the directory is empty" if empty else "no broker's folder, no log directory and no text of kafka-dump-log in it",
        remedy="give a directory with one folder per broker (broker-1, broker-2, ...), each with the broker's log directories below it",
    )


def _printable(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


class _Tree:
    """The folders below one input, each listed once."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._listed: dict[Path, tuple[list[Path], list[str]]] = {}
        self._metas: dict[Path, list[checkpoints.MetaProperties]] = {}

    def roots(self, path: Path, depth: int = 0) -> Iterator[tuple[Path, list[Path]]]:
        """(root, its broker folders) for a path that is a root, a broker's folder, or a folder of roots."""
        children, _files = self.entries(path)
        ids = {meta.broker_id for meta in self.metas(path)}
        if self._is_log_dir(path) or (len(ids) == 1 and not any(self._named(child) for child in children)):
            yield path, [path]
            return
        folders, others, nested = [], [], []
        for child in children:
            of_child = {meta.broker_id for meta in self.metas(child)}
            if len(of_child) > 1 and child.name.startswith("broker") and self._named(child) and not self._holds_named(child):
                folders += self._of_several_brokers(child)
            elif len(of_child) > 1 or (depth < _DEPTH and self._holds_named(child)):
                nested.append(child)
            elif of_child or self._named(child):
                folders.append(child)
            else:
                others.append(child)
        if folders:
            yield path, folders
        for child in nested:
            yield from self.roots(child, depth + 1)
        if folders or nested:
            self._report_others(path, others)
        elif log_dir.is_broker_folder(path.name) is not None and (children or self.entries(path)[1]):
            yield path, [path]

    def _of_several_brokers(self, path: Path) -> list[Path]:
        """The log directories of a folder that is named for one broker and holds those of several."""
        ids = sorted({str(meta.broker_id) for meta in self.metas(path)})
        detail = f"log directories of brokers {', '.join(ids)} lie in one folder; each is taken for the broker that it names"
        remedy = "check that the folders were not mixed up when they were copied"
        self._found.problems.append((None, Problem(path=str(path), kind="directory", code="several-brokers", detail=detail, remedy=remedy)))
        return [child for child in self.entries(path)[0] if self.metas(child)]

    def entries(self, path: Path) -> tuple[list[Path], list[str]]:
        """Directories (links to them too) and names of files; what cannot be listed is reported and counts as empty."""
        if path not in self._listed:
            directories: list[str] = []
            files: list[str] = []
            if len(self._listed) < _LOOKED_AT:
                try:
                    with os.scandir(path) as entries:
                        for entry in entries:
                            if not _printable(entry.name):
                                continue  # told when the broker's files are read
                            (directories if self._is_directory(entry) else files).append(entry.name)
                except OSError as error:
                    self._cannot_read(path, error)
            self._listed[path] = ([path / name for name in sorted(directories)], sorted(files))
        return self._listed[path]

    def _is_directory(self, entry: os.DirEntry[str]) -> bool:
        """Whether an entry is a directory, and no link back to one that it lies in."""
        try:
            if entry.is_symlink() and os.path.realpath(entry.path) in _and_above(os.path.realpath(Path(entry.path).parent)):
                return False
            return entry.is_dir()
        except OSError:
            return False

    def _cannot_read(self, path: Path, error: OSError) -> None:
        remedy = "give the audit's user read permission on it, or copy it again"
        problem = Problem(path=str(path), kind="directory", code="cannot-read", detail=error.strerror or str(error), remedy=remedy)
        if (None, problem) not in self._found.problems:
            self._found.problems.append((None, problem))

    def metas(self, folder: Path) -> list[checkpoints.MetaProperties]:
        """Every readable meta.properties that names a broker, in a folder and some levels below; replica directories are not entered."""
        if folder not in self._metas:
            above = Path(os.path.realpath(folder)).parents
            self._metas[folder] = list(self._meta_properties(folder, _DEPTH, {str(parent) for parent in above}))
        return self._metas[folder]

    def _meta_properties(self, folder: Path, depth: int, seen: set[str]) -> Iterator[checkpoints.MetaProperties]:
        real = os.path.realpath(folder)
        children, files = self.entries(folder)
        if real in seen or _holds_replica_files(files):
            return
        seen.add(real)
        if log_dir.META_PROPERTIES in files:
            meta = _meta(folder / log_dir.META_PROPERTIES)
            if meta and meta.broker_id is not None:
                yield meta
        if depth > 0:
            for child in children:
                if not child.name.startswith("."):
                    yield from self._meta_properties(child, depth - 1, seen)

    def _is_log_dir(self, path: Path) -> bool:
        """Whether replica directories lie right in a folder; a stray small file in a root does not make it one."""
        return any(self._is_replica(child) for child in self.entries(path)[0])

    def _is_replica(self, path: Path) -> bool:
        return log_dir.replica_directory(path.name) is not None and _holds_replica_files(self.entries(path)[1])

    def _named(self, path: Path) -> bool:
        """Whether a folder is named like a broker's, and is not a replica of a topic of such a name."""
        return log_dir.is_broker_folder(path.name) is not None and not self._is_replica(path) and not path.name.startswith(".")

    def _holds_named(self, path: Path) -> bool:
        """Whether a folder holds folders called broker-N: then it is a root, whatever it is called itself."""
        return not self._is_log_dir(path) and any(child.name.startswith("broker") and self._named(child) for child in self.entries(path)[0])

    def _report_others(self, root: Path, others: list[Path]) -> None:
        remedy = "rename the folder to broker-ID, or copy meta.properties too"
        detail = "no meta.properties below it, and its name is not that of a broker (broker-3, broker=3, 3): it is left out"
        for folder in others:
            if self._holds_kafka_files(folder, 3):
                problem = Problem(path=str(folder), kind="directory", code="unknown-broker", detail=detail, remedy=remedy)
                self._found.problems.append((None, problem))
        for name in self.entries(root)[1]:
            if name.endswith(_ARCHIVES) or log_dir.is_broker_folder(name) is not None:
                problem = Problem(
                    path=str(root / name),
                    kind="file",
                    code="packed",
                    detail="a file beside the brokers' folders is not looked into",
                    remedy="unpack it into a folder named broker-ID if it holds a broker's files",
                )
                self._found.problems.append((None, problem))

    def _holds_kafka_files(self, path: Path, depth: int) -> bool:
        children, files = self.entries(path)
        if any(log_dir.is_known(name) for name in files):
            return True
        return depth > 0 and any(self._holds_kafka_files(child, depth - 1) for child in children)


def _and_above(real: str) -> set[str]:
    return {real, *(str(parent) for parent in Path(real).parents)}


def _holds_replica_files(files: Sequence[str]) -> bool:
    return log_dir.EPOCH_CHECKPOINT in files or log_dir.PARTITION_METADATA in files or any(log_dir.segment_name(name) for name in files)


def _meta(file: Path) -> checkpoints.MetaProperties | None:
    try:
        if stat.S_ISREG(file.stat().st_mode):
            return checkpoints.meta_properties(file.read_bytes())
    except (InputError, OSError):
        pass  # reported when the broker's files are read
    return None


def _add(found: Found, path: Path, folders: list[Path], tree: _Tree) -> None:
    metadata_path = path / log_dir.CLUSTER_METADATA
    head = _head(metadata_path)
    brokers = [broker for folder in folders if (broker := _broker(found, folder, tree)) is not None]
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
                metadata_path=metadata_path if os.path.lexists(metadata_path) else None,
                head=head,
            )
        )


def _broker(found: Found, folder: Path, tree: _Tree) -> BrokerFolder | None:
    said = next(iter(tree.metas(folder)), None)
    named = log_dir.is_broker_folder(folder.name)
    broker_id = said.broker_id if said else named
    if broker_id is None:
        detail = "no meta.properties below it, and its name is not that of a broker (broker-3, broker=3, 3)"
        remedy = "rename the folder to broker-ID or copy meta.properties too"
        found.problems.append((None, Problem(path=str(folder), kind="directory", code="unknown-broker", detail=detail, remedy=remedy)))
        return None
    if named is not None and named != broker_id and folder.name.startswith("broker"):
        detail = f"the folder is named for broker {named}, its meta.properties says {broker_id}, which is believed"
        remedy = "check that the folders were not mixed up when they were copied"
        problem = Problem(path=str(folder), kind="directory", code="broker-id-mismatch", detail=detail, remedy=remedy)
        found.problems.append((said.cluster_id if said else None, problem))
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
        return cluster_metadata.read(path)[0]
    except (MetadataError, OSError):
        return None  # reported when its partitions are read


def _give_metadata(found: Found, path: Path) -> None:
    """Put a cluster-metadata.json that was given apart in the place of the root's own."""
    try:
        head = cluster_metadata.read(path)[0]
    except MetadataError as error:
        where = f" at line {error.line}" if error.line else ""
        raise UsageError(f"--cluster-metadata {path}: {error.reason}{where}") from None
    except OSError as error:
        raise UsageError(f"--cluster-metadata {path}: {error.strerror or error}") from None
    fitting = [root for root in found.roots if head.cluster_id == root.cluster_id]
    if not fitting and len(found.roots) == 1 and (head.cluster_id is None or found.roots[0].cluster_id == str(found.roots[0].path)):
        fitting = found.roots
    if found.roots and not fitting:
        raise UsageError(f"--cluster-metadata {path}: its cluster_id {head.cluster_id} is that of none of the inputs")
    for root in list(fitting):
        found.roots[found.roots.index(root)] = Root(
            path=root.path, cluster_id=head.cluster_id or root.cluster_id, brokers=root.brokers, metadata_path=path, head=head
        )


def _refuse_twins(roots: Sequence[Root]) -> None:
    first: dict[str, Root] = {}
    for root in roots:
        twin = first.setdefault(root.cluster_id, root)
        if twin is not root:
            raise UsageError(
                f"{twin.path} and {root.path} both hold cluster {root.cluster_id}: one run compares the replicas of one moment. "
                "Audit two copies in runs of their own; put the brokers of one copy into one folder, and give that"
            )
