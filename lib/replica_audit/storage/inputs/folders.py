"""The folders below an input: which are roots, which are brokers' folders, and what is left out.

A broker is known by the `meta.properties` below its folder, whatever the folder is called; a folder without one by its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from replica_audit.errors import InputError, UsageError
from replica_audit.files.locations import SCHEMES, StoredEntry, entries, located, opened, real_path
from replica_audit.files.opened import leads_outside
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.collection.manifest import MANIFEST, identity, is_collected_log_dir
from replica_audit.formats.dump import dump_texts
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import whole_content
from replica_audit.formats.server_log.json_records import number_of
from replica_audit.formats.server_log.log_writers import is_unusable, written_by
from replica_audit.model import CANNOT_READ, INCOMPLETE_COLLECTION, Problem

MOST_FOLDERS = 20_000  # directories below one input, replicas left out: a bound for what is no copy of brokers


def is_printable(name: str) -> bool:
    """Return True if a name is valid UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


class ListedFolders:
    """Listings of folders by their real paths; `is_partial` is True if some entries were left out."""

    def __init__(self, problems: list[tuple[str | None, Problem]], most: int) -> None:
        """Report to `problems`, with a cluster id of None. At most so many directories are listed."""
        self._problems = problems
        self._most = most
        self.is_partial = False
        self._listed: dict[str, tuple[list[str], list[str]]] = {}
        self._reals: dict[Path, str] = {}
        self._places: dict[tuple[str, str], str] = {}  # of a name in a folder
        self._is_too_many = False

    def entries(self, path: Path) -> tuple[list[Path], list[str]]:
        """Return directories (also links to them) and names of files; a folder that cannot be listed is reported and counts as empty."""
        return list(self.directories(path)), self.files(path)

    def directories(self, path: Path) -> Iterator[Path]:
        """The first part of `entries`, each made when it is asked for: of a log directory there may be a hundred thousand."""
        return (path / name for name in self._names(path)[0])

    def files(self, path: Path) -> list[str]:
        """The second part of `entries`."""
        return self._names(path)[1]

    def _names(self, path: Path) -> tuple[list[str], list[str]]:
        real = self.real(path)
        if real not in self._listed:
            directories: list[str] = []
            files: list[str] = []
            self.is_partial = self.is_partial or len(self._listed) >= self._most
            if not self.is_partial:
                try:
                    with entries(path) as listed:
                        for entry in listed:
                            if not is_printable(entry.name):
                                continue  # told when the broker's files are read
                            if (error := _folder_outside(path, entry)) is not None:
                                self.cannot_read(path / entry.name, error)
                            else:
                                (directories if _is_directory(path, entry) else files).append(entry.name)
                except OSError as error:
                    self.cannot_read(path, error)
            else:
                self._told_once(path)
            self._listed[real] = (sorted(directories), sorted(files))
        return self._listed[real]

    def listed_files(self, path: Path) -> list[str]:
        """Names of files in a folder that was listed before; else nothing."""
        return self._listed.get(self.real(path), ([], []))[1]

    def real(self, path: Path) -> str:
        """Real path of a folder, resolved once."""
        if path not in self._reals:
            parent = self._reals.get(path.parent)
            if parent is None:
                self._reals[path] = real_path(path)
            else:
                place = (parent, path.name)
                if place not in self._places:
                    self._places[place] = real_path(path)
                self._reals[path] = self._places[place]
        return self._reals[path]

    def _told_once(self, path: Path) -> None:
        if not self._is_too_many:
            self._is_too_many = True
            detail = f"the input has more than {self._most} folders beside replicas: nothing shows which of the remaining ones are brokers'"
            remedy = "give a directory that holds one folder per broker and nothing else"
            self._problems.append((None, Problem(path=str(path), kind="directory", code="too-many-folders", detail=detail, remedy=remedy)))

    def cannot_read(self, path: Path, error: OSError) -> None:
        """Report once that a folder, or a file in it, cannot be read."""
        problem = cannot_read(path, "directory", error)
        if (None, problem) not in self._problems:
            self._problems.append((None, problem))


def _folder_outside(folder: Path, entry: os.DirEntry[str] | StoredEntry) -> OSError | None:
    """Error for a link to a directory outside of the input; a link to a file is reported by the reader of the file."""
    try:
        return leads_outside(str(folder / entry.name)) if entry.is_symlink() and entry.is_dir() else None
    except OSError:
        return None


def _is_directory(folder: Path, entry: os.DirEntry[str] | StoredEntry) -> bool:
    """Return True if an entry is a directory and not a link back to one that contains it."""
    try:
        if entry.is_symlink() and os.path.realpath(folder / entry.name) in _and_above(os.path.realpath(folder)):
            return False
        return entry.is_dir()
    except OSError:
        return False


def _and_above(real: str) -> set[str]:
    return {real, *(str(parent) for parent in Path(real).parents)}


INPUT = "input"  # the kind of a problem of an input as a whole, of which nothing is known then


def unusable(inputs: Sequence[str]) -> list[Problem]:
    """Local inputs that cannot be listed; stores are left out, because only Spark may have access to them.

    Raises:
        UsageError: an input is of a kind that cannot be read.
    """
    local = [location(given) for given in inputs if given.startswith("file:") or "://" not in given]
    return [problem for path in local if (problem := why_unusable(path)) is not None]


def location(given: str) -> Path:
    """Location of an input.

    Raises:
        UsageError: it is of a kind that cannot be read.
    """
    if not given:
        raise UsageError("--input: empty; give a directory")
    if given.startswith("file:"):
        parts = urlsplit(given)
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"--input {given}: names another host; give file:///path")
        return Path(unquote(parts.path)).absolute()
    if "://" in given:
        return _in_a_store(given)
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"--input {given}: {error}") from None


def _in_a_store(given: str) -> Path:
    scheme, _, rest = given.partition("://")
    if scheme not in SCHEMES:
        known = ", ".join(f"{scheme}:" for scheme in SCHEMES)
        raise UsageError(f"--input {given}: only local directories and URIs of file:, {known} can be read; copy the files")
    bucket, _, key = rest.rstrip("/").partition("/")
    if not bucket or any(part in ("", ".", "..") for part in key.split("/") if key):
        raise UsageError(f"--input {given}: give {scheme}://BUCKET/FOLDER")
    return located(given)


def why_unusable(path: Path) -> Problem | None:
    """Return why an input cannot be listed; None if it can."""

    def problem(code: str, detail: str, remedy: str) -> Problem:
        shown = str(path).encode("utf-8", "replace").decode()
        return Problem(path=shown, kind=INPUT, code=code, detail=detail, remedy=remedy)

    try:
        is_directory = stat.S_ISDIR(path.stat().st_mode)
        if is_directory:
            next(path.iterdir(), None)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            remedy = getattr(error, "remedy", "give the user who runs the audit read permission on it and on the folders above it")
            return problem(CANNOT_READ, error.strerror or str(error), remedy)
        return problem("no-such-path", "does not exist", "check the path given to --input")
    if not is_directory:
        return problem("not-a-directory", "is not a directory", "give the directory that holds one folder per broker")
    if not is_printable(str(path)):
        return problem("name-not-utf8", "the name is not UTF-8", "rename the directory")
    return None


_DEPTH = 7
_HEAD = 1 << 12  # bytes of a manifest that name the broker
_KEPT = "left out: an earlier collection, which collect --replace kept since the newer one could not read some of the files that it has"
_OF_KEPT = "delete it once nobody needs it; to audit it, move it into another folder under the name broker-ID"
_LOG_DEPTH = 3  # folders below one that lies beside the brokers'
_FIRST_LOGS = 20
_SNIFFED_LOGS = 200  # files beside the brokers' folders that are looked into
_NO_LOGS = (".properties", ".md", ".parquet", ".tar", ".tgz", ".zip", ".zst", ".xz", ".bz2", ".7z")
_ARCHIVES = (".tar", ".gz", ".tgz", ".zip", ".zst", ".xz", ".bz2", ".7z")


class Tree:
    """The folders below one input: which are roots, and which are brokers'."""

    def __init__(self, problems: list[tuple[str | None, Problem]], most: int = MOST_FOLDERS) -> None:
        """Report to `problems`, with a cluster id of None: the tree knows none. At most so many directories are listed."""
        self._problems = problems
        self.folders = ListedFolders(problems, most)
        self._taken: dict[str, Path] = {}  # what is a root, lies in one, or is a broker's folder, by where it really is
        self._metas: dict[str, list[checkpoints.MetaProperties]] = {}
        self._insides: dict[str, tuple[checkpoints.MetaProperties | None, list[str]]] = {}

    def roots(self, path: Path, depth: int = 0) -> Iterator[tuple[Path, list[Path]]]:
        """(root, its broker folders) for a path that is a root, a broker's folder, or a folder of roots; each folder once."""
        self._taken.setdefault(self.folders.real(path), path)
        children, _files = self.folders.entries(path)
        ids = {meta.broker_id for meta in self.metas(path)}
        if self._is_log_dir(path) or (len(ids) == 1 and not any(self._named(child) for child in children)):
            yield path, [path]
            return
        folders, others, nested = [], [], []
        for child in self._new(self._without_unfinished(children)):
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
            nested = [child for child in nested if not self._holds_only_logs(child)]
        for child in nested:
            yield from self.roots(child, depth + 1)
        if folders or nested:
            self._report_others(path, others)
        elif log_dir.is_broker_folder(path.name) is not None and (children or self.folders.files(path)):
            yield path, [path]

    def _new(self, folders: Iterable[Path]) -> Iterator[Path]:
        """Folders not returned before; each real folder once, however many links lead to it."""
        for path in sorted(folders, key=lambda path: (self.folders.real(path) != str(path), path.name)):
            first = self._taken.setdefault(self.folders.real(path), path)
            if first is path:
                yield path
            else:
                detail, remedy = f"a link to a folder that is already read as {first}", "none: each folder is read once"
                self._problems.append((None, Problem(path=str(path), kind="directory", code="link-loop", detail=detail, remedy=remedy)))

    def _without_unfinished(self, folders: list[Path]) -> Iterator[Path]:
        detail = "left out: collect ended before it was done, or is still running"
        remedy = "collect again; the next run removes the folder"
        for path in folders:
            if log_dir.is_unfinished(path.name):
                problem = Problem(path=str(path), kind="collection", code=INCOMPLETE_COLLECTION, detail=detail, remedy=remedy)
                self._problems.append((None, problem))
            elif log_dir.is_kept(path.name):
                problem = Problem(path=str(path), kind="directory", code="hidden-folder", detail=_KEPT, remedy=_OF_KEPT)
                self._problems.append((None, problem))
            else:
                yield path

    def _of_several_brokers(self, path: Path) -> list[Path]:
        """Log directories in a folder that is named for one broker and holds several brokers'."""
        ids = sorted({str(meta.broker_id) for meta in self.metas(path)})
        detail = f"log directories of brokers {', '.join(ids)} lie in one folder; each counts for the broker that it names"
        remedy = "check that the folders were not mixed up when they were copied"
        self._problems.append((None, Problem(path=str(path), kind="directory", code="several-brokers", detail=detail, remedy=remedy)))
        return [child for child in self.folders.entries(path)[0] if self.metas(child)]

    def metas(self, folder: Path) -> list[checkpoints.MetaProperties]:
        """Yield each readable meta.properties with a broker id, in a folder and some levels below; replica directories are skipped."""
        real = self.folders.real(folder)
        if real not in self._metas:
            self._metas[real] = list(self._meta_properties(real, _DEPTH, {str(parent) for parent in located(real).parents}))
        return self._metas[real]

    def _meta_properties(self, real: str, depth: int, seen: set[str]) -> Iterator[checkpoints.MetaProperties]:
        if real in seen:
            return
        seen.add(real)
        meta, below = self._looked_into(real)
        if meta is not None:
            yield meta
        for child in below if depth > 0 else ():
            yield from self._meta_properties(child, depth - 1, seen)

    def _looked_into(self, real: str) -> tuple[checkpoints.MetaProperties | None, list[str]]:
        """Return a folder's own meta.properties, if it names a broker, and the real paths of subfolders that may hold others."""
        if real not in self._insides:
            folder = located(real)
            files = self.folders.files(folder)
            meta, below = None, []
            if not _holds_replica_files(files):
                meta = _meta(folder / log_dir.META_PROPERTIES) if log_dir.META_PROPERTIES in files else None
                if is_collected_log_dir(files):
                    meta = meta if meta and _is_of_the_collected(folder.parent / MANIFEST, meta) else None
                else:
                    is_log_dir = any(name in files for name in log_dir.OFFSET_CHECKPOINTS)
                    # replica directories: thousands, which need not be listed
                    below = [
                        self.folders.real(child)
                        for child in self.folders.directories(folder)
                        if not child.name.startswith(".") and not (is_log_dir and dump_texts.of_folder(child.name) is not None)
                    ]
            self._insides[real] = meta if meta and meta.broker_id is not None else None, below
        return self._insides[real]

    def server_logs(self, root: Path) -> Iterator[tuple[int, Path]]:
        """(broker id, path) of server logs beside the brokers' folders, or in folders there that hold nothing else of Kafka's.

        By name (`broker-3.server.log` and the like), else by a folder that is named for a broker (`logs/broker-3/server.log`), else by
        content: a log of any name whose lines name the broker that wrote it.
        """
        sniffed = 0
        for folder, of_folder in self._folders_of_logs(root):
            for name in self.folders.files(folder):
                broker_id = log_dir.server_log_of(name)
                is_unknown = broker_id is None and not log_dir.is_known(name) and not name.endswith(_NO_LOGS)
                if is_unknown and of_folder is not None and log_dir.is_server_log(name):
                    broker_id = of_folder
                elif is_unknown and sniffed < _SNIFFED_LOGS:
                    sniffed += 1
                    broker_id = self._written_by(folder / name, of_folder)
                if broker_id is not None:
                    yield broker_id, folder / name

    def _folders_of_logs(self, root: Path) -> Iterator[tuple[Path, int | None]]:
        """Yield a root and its folders that may hold logs beside the brokers' folders, with the broker that each is named for."""
        yield root, None
        children, _files = self.folders.entries(root)
        for child in children:
            if log_dir.is_broker_folder(child.name) is None and not self.metas(child) and not self._is_log_dir(child):
                yield from self._below(child, None, _LOG_DEPTH)

    def _below(self, folder: Path, broker_id: int | None, depth: int) -> Iterator[tuple[Path, int | None]]:
        yield folder, broker_id
        if depth and not self._holds_kafka_files(folder, depth, set()):
            for child in self.folders.entries(folder)[0]:
                named = log_dir.is_broker_folder(child.name)
                yield from self._below(child, number_of(child.name.encode()) if named is None else named, depth - 1)

    def _holds_only_logs(self, path: Path) -> bool:
        """Return True if the folders named for brokers in a folder hold logs and nothing else of Kafka's."""
        if self.metas(path) or self._holds_kafka_files(path, _LOG_DEPTH, set()):
            return False
        named = [child for child in self.folders.directories(path) if log_dir.is_broker_folder(child.name) is not None]
        found = [self._is_log(child / name) for child in named for name in self.folders.files(child)[:_FIRST_LOGS]]
        return bool(found) and all(found)

    def _is_log(self, path: Path) -> bool:
        if log_dir.is_server_log(path.name):
            return True
        try:
            return written_by(path)[0]
        except OSError:
            return False  # reported where it is read

    def holds_files(self, path: Path, depth: int = _DEPTH) -> bool:
        """Return True if a folder, or some levels below it, holds a file or cannot be listed."""
        children, files = self.folders.entries(path)
        return bool(files) or self.folders.is_partial or (depth > 0 and any(self.holds_files(child, depth - 1) for child in children))

    def _written_by(self, path: Path, of_folder: int | None) -> int | None:
        """Return the broker that wrote a log; a log without a broker id, in a folder without one, is reported."""
        try:
            is_log, broker_id = written_by(path)
            is_quoted = not is_log and path.name.endswith(".json") and is_unusable(path)
        except OSError as error:
            self.folders.cannot_read(path, error)
            return None
        if is_quoted:
            detail = "JSON with lines of a server.log in it, in a shape that is not known: they are not read"
            remedy = "export the log as text, with one line for each message"
            self._problems.append(
                (None, Problem(path=str(path), kind=log_dir.SERVER_LOG, code="unusable-log", detail=detail, remedy=remedy))
            )
        if is_log and broker_id is None and of_folder is None:
            detail = "its lines are those of a server.log, but the first ones name no broker: it is left out"
            remedy = "put it into that broker's folder, or call it broker-ID.server.log"
            problem = Problem(path=str(path), kind=log_dir.SERVER_LOG, code="unknown-broker", detail=detail, remedy=remedy)
            self._problems.append((None, problem))
        return of_folder if is_log and of_folder is not None else broker_id

    def _is_log_dir(self, path: Path) -> bool:
        """Return True if replica directories lie directly in a folder; a stray small file does not count."""
        return any(self._is_replica(child) for child in self.folders.directories(path))

    def _is_replica(self, path: Path) -> bool:
        """Return True if a folder is named like a replica's and holds one; people also put bare segments into a broker's folder."""
        files = self.folders.files(path)
        if log_dir.replica_directory(path.name) is None or not _holds_replica_files(files):
            return False
        beside = self.folders.listed_files(path.parent)
        if any(name in beside for name in (log_dir.META_PROPERTIES, *log_dir.OFFSET_CHECKPOINTS)):
            return True
        if log_dir.is_broker_folder(path.name) is not None:
            return False
        is_whole = log_dir.EPOCH_CHECKPOINT in files or log_dir.PARTITION_METADATA in files
        return is_whole or dump_texts.of_folder(path.name) is not None

    def _named(self, path: Path) -> bool:
        """Return True if a folder is named like a broker's and is not a replica of a topic of that name."""
        return log_dir.is_broker_folder(path.name) is not None and not self._is_replica(path) and not path.name.startswith(".")

    def _holds_named(self, path: Path) -> bool:
        """Return True if a folder holds folders called broker-N and is not a collection: then it is a root, whatever its own name."""
        if MANIFEST in self.folders.files(path):
            return False  # of a log directory of such a name
        return not self._is_log_dir(path) and any(
            child.name.startswith("broker") and self._named(child) for child in self.folders.directories(path)
        )

    def _report_others(self, root: Path, others: list[Path]) -> None:
        remedy = "rename the folder to broker-ID, or copy meta.properties too"
        detail = "no meta.properties below it, and its name does not name a broker (broker-3, broker=3, 3): it is left out"
        for folder in others:
            if self._holds_kafka_files(folder, 3, set()):
                problem = Problem(path=str(folder), kind="directory", code="unknown-broker", detail=detail, remedy=remedy)
                self._problems.append((None, problem))
        for name in self.folders.files(root):
            if log_dir.server_log_of(name) is not None:
                continue
            if name.endswith(_ARCHIVES) or log_dir.is_broker_folder(name) is not None:
                problem = Problem(
                    path=str(root / name),
                    kind="file",
                    code="packed",
                    detail="a file beside the brokers' folders is not read",
                    remedy="unpack it into a folder named broker-ID if it holds a broker's files",
                )
                self._problems.append((None, problem))

    def _holds_kafka_files(self, path: Path, depth: int, seen: set[str]) -> bool:
        if self.folders.real(path) in seen:
            return False
        seen.add(self.folders.real(path))
        children, files = self.folders.entries(path)
        if any(log_dir.is_known(name) for name in files):
            return True
        return depth > 0 and any(self._holds_kafka_files(child, depth - 1, seen) for child in children)


def _holds_replica_files(files: Sequence[str]) -> bool:
    return log_dir.EPOCH_CHECKPOINT in files or log_dir.PARTITION_METADATA in files or any(log_dir.segment_name(name) for name in files)


def _is_of_the_collected(manifest: Path, meta: checkpoints.MetaProperties) -> bool:
    """Return True if a meta.properties has the broker id of its collection; else it was changed, which the listing reports."""
    try:
        with opened(manifest) as stream:
            said = identity(stream.read(_HEAD))
    except OSError:
        return True  # reported with the folder
    return said is None or (said[0] == meta.broker_id and (None in (said[1], meta.cluster_id) or said[1] == meta.cluster_id))


def _meta(file: Path) -> checkpoints.MetaProperties | None:
    try:
        return checkpoints.meta_properties(whole_content(file))
    except (InputError, OSError):
        return None  # reported when the broker's files are read
