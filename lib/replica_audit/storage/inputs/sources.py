"""Clusters and brokers below the inputs. Only folders, and the few files that identify them, are read here."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from replica_audit.errors import MetadataError, UsageError
from replica_audit.files.locations import entries, is_stored
from replica_audit.files.opened import confine, release
from replica_audit.formats.collection.manifest import MANIFEST, read
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.metadata import cluster_metadata, metadata_files
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.formats.metadata.metadata_files import TELLS_LEADERS, Made, MetadataFile
from replica_audit.model import LINK_OUTSIDE, PartitionMetadata, Problem
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.log_directories import OtherCopy, SharedId
from replica_audit.rows.runs import NO_CLUSTER
from replica_audit.storage.inputs.folders import INPUT, Tree, is_printable, location, why_unusable

ONE_OF_SEVERAL = "one-broker-of-several"
_LEVELS = 2  # a broker's folder, or one of its log directories
_LOOKED_AT = 64  # folders beside an input


def neighbours_left_out(path: Path, broker_id: int, cluster_id: str | None, kind: str) -> Problem | None:
    """Problem of an input that is one broker's folder or log directory with other brokers of its cluster beside it; None if there are none.

    Args:
        path: the input.
        broker_id: whose it is.
        cluster_id: of its meta.properties; None if that does not say.
        kind: of the problem.
    """
    for at in (path, *path.parents)[:_LEVELS]:
        others = sorted(set(_others(at, broker_id, cluster_id)))
        if others:
            shown = ", ".join(map(str, sorted({broker_id, *others})))
            return Problem(
                path=str(path),
                kind=kind,
                code=ONE_OF_SEVERAL,
                detail=f"the input has broker {broker_id} of {shown}, whose folders lie side by side; logs are compared with each other",
                remedy=f"give the folder above: --input {at.parent}",
            )
    return None


def _others(path: Path, broker_id: int, cluster_id: str | None) -> Iterator[int]:
    """Ids of other brokers whose folders have the same name but for the number."""
    form = re.sub(r"\d+", "#", path.name)
    tree = Tree([])  # what is wrong with folders that were not given is nobody's problem
    for sibling in _directories(path.parent):
        if sibling == path or re.sub(r"\d+", "#", sibling.name) != form:
            continue
        said = next(iter(tree.metas(sibling)), None)
        found = said.broker_id if said else log_dir.is_broker_folder(sibling.name)
        is_same_cluster = said is None or cluster_id is None or said.cluster_id in (None, cluster_id)
        if found is not None and found != broker_id and is_same_cluster and (said or tree.holds_files(sibling)):
            yield found


def _directories(path: Path) -> list[Path]:
    try:
        with entries(path) as listed:
            names = sorted(entry.name for entry in listed if is_printable(entry.name) and entry.is_dir())
    except OSError:
        return []
    return [path / name for name in names[:_LOOKED_AT]]


def lacking(path: Path, present: Iterable[int], named: Iterable[int]) -> Problem | None:
    """That the metadata of a cluster, whose root is at `path`, names brokers of which the input holds nothing; None if it holds all."""
    here = set(present)
    missing = sorted(set(named) - here)
    if not missing:
        return None
    names, are = ", ".join(map(str, missing)), "broker" if len(missing) == 1 else "brokers"
    return Problem(
        path=str(path),
        kind="metadata",
        code="brokers-not-in-input",
        detail=f"the metadata names {are} {names}, but the input has only {', '.join(map(str, sorted(here)))}",
        remedy=f"also copy the log directories of {are} {names} into folders named broker-ID; nothing, if they are gone",
    )


_SNIFFED = 100  # files that are looked into
_NO_TEXT = (".properties", ".md", ".parquet", ".tar", ".tgz", ".zip", ".zst", ".xz", ".bz2", ".7z", ".html")


@dataclass(slots=True)
class Described:
    """The files in use, what they say of the cluster (None if there are none), and the problems of all files."""

    paths: tuple[Path, ...]
    head: ClusterMetadata | None
    problems: list[Problem]


def described(root: Path, folders: Sequence[Path], tree: Tree, *, has_document: bool) -> Described:
    """Read text that was pasted beside brokers' folders; of several kinds one counts, a readable cluster-metadata.json first.

    Args:
        root: of the cluster.
        folders: the brokers'.
        tree: below the input.
        has_document: whether there is a cluster-metadata.json that can be read.
    """
    problems = list(_in_brokers_folders(root, folders, tree, has_document=has_document))
    found = list(_recognised(root, folders, tree, problems))
    telling = [made for _path, made in found if made in TELLS_LEADERS]
    chosen = None if has_document else min(telling, key=TELLS_LEADERS.index, default=None)
    logs: list[Path] = []  # they have epochs, and are held against what else there is, partition by partition
    files: dict[Path, MetadataFile] = {}
    for path, made in found:
        if made is Made.METADATA_LOG:
            logs.append(path)
        elif made is Made.DUMP:
            problems.append(_whose(path))
        elif made is chosen:
            try:
                files[path] = metadata_files.read(path)
            except (MetadataError, OSError) as error:
                problems.append(metadata_files.unusable(path, error))
        else:
            why = (
                f"{log_dir.CLUSTER_METADATA if chosen is None else chosen} is used instead"
                if made in TELLS_LEADERS
                else "it tells no leader"
            )
            problems.append(_not_used(path, f"what {made} prints: {why}"))
    problems += _contradictions(files)
    heads = [file.head for file in files.values()]
    states = {broker: state for head in heads for broker, state in head.broker_states.items()}
    return Described((*files, *logs), replace(heads[0], broker_states=states) if heads else None, problems)


def _contradictions(files: dict[Path, MetadataFile]) -> Iterator[Problem]:
    """Leave out files that contradict each other about a partition: which is newer is unknown."""
    first: dict[tuple[str, int], tuple[Path, PartitionMetadata]] = {}
    wrong: dict[Path, MetadataError] = {}
    for path, file in files.items():
        for claim in file.partitions:
            other, said = first.setdefault((claim.topic, claim.partition), (path, claim))
            if said != claim:
                name = f"{claim.topic}-{claim.partition}"
                wrong.setdefault(path, MetadataError(f"{name} is given with other values in {other.name}: neither file is used"))
                wrong.setdefault(other, MetadataError(f"{name} is given with other values in {path.name}: neither file is used"))
    for path, error in wrong.items():
        del files[path]
        yield replace(metadata_files.unusable(path, error), remedy="keep the newest one alone")


def _recognised(root: Path, folders: Sequence[Path], tree: Tree, problems: list[Problem]) -> Iterator[tuple[Path, Made]]:
    if root in folders:
        return  # one broker's own folder
    children = (child for child in tree.folders.entries(root)[0] if child not in folders)
    beside = (child for child in children if log_dir.is_broker_folder(child.name) is None)
    yield from _made_in([root, *beside], tree, problems)


def _in_brokers_folders(root: Path, folders: Sequence[Path], tree: Tree, *, has_document: bool) -> Iterator[Problem]:
    """A cluster-metadata.json in a broker's folder, where nobody looks for it; texts there are told where the folder is listed."""
    for folder in folders:
        if folder != root and log_dir.CLUSTER_METADATA in tree.folders.files(folder):
            path = folder / log_dir.CLUSTER_METADATA
            yield _not_used(path, "the one beside the brokers' folders is used") if has_document else metadata_files.misplaced(path)


def _made_in(places: Sequence[Path], tree: Tree, problems: list[Problem]) -> Iterator[tuple[Path, Made]]:
    sniffed = 0
    for folder in places:
        for name in tree.folders.files(folder):
            if sniffed >= _SNIFFED or log_dir.is_known(name) or log_dir.server_log_of(name) is not None or name.endswith(_NO_TEXT):
                continue
            sniffed += 1
            try:
                head = metadata_files.head_of(folder / name) if (folder / name).is_file() else b""
            except OSError:
                continue  # told where it is looked into for other things
            made = metadata_files.made_in(head)
            if made is not None and made is not Made.DOCUMENT:
                yield folder / name, made
            elif made is None and (wrapped := metadata_files.wrapped_in(head)) is not None:
                problems.append(metadata_files.wraps(folder / name, wrapped))


def _whose(path: Path) -> Problem:
    return Problem(
        path=str(path),
        kind="dump",
        code="unknown-broker",
        detail="text of kafka-dump-log beside the brokers' folders: which broker's it is, is not known, and it is left out",
        remedy="put it into that broker's folder",
    )


def _not_used(path: Path, why: str) -> Problem:
    return Problem(
        path=str(path),
        kind=metadata_files.KIND,
        code="metadata-not-used",
        detail=why,
        remedy="none, if the leaders are known from elsewhere",
    )


COPIED_TWICE = "two-copies-of-a-broker"
_REMEDY = "give each copy of the broker in an input of its own, or leave the older one out; keep both until nobody needs their records"


def of_log_directories(found: Sequence[OtherCopy]) -> Iterator[Problem]:
    """Yield a problem for each log directory that is a copy of another."""
    for one in found:
        same = "have the same directory.id" if one.has_same_id else "hold the same partitions"
        yield Problem(
            path=one.path,
            kind="directory",
            code=COPIED_TWICE,
            detail=f"two copies of broker {one.broker_id}: {one.judged} and {one.path} {same}. The first is judged, as the high watermarks "
            "that it has written down reach farther or as far",
            remedy=_REMEDY,
        )


def of_shared_ids(found: Sequence[SharedId]) -> Iterator[Problem]:
    """A problem for each `directory.id` that several brokers have: one of the files, or the whole directory, is another broker's."""
    for one in found:
        named = " and ".join(f"{path} of broker {broker}" for broker, path in one.directories)
        yield Problem(
            path=one.directories[-1][1],
            kind="directory",
            code="directory-id-of-two-brokers",
            detail=f"{named} have the same directory.id, {one.directory_id}: each is read as its broker's, and one is another's",
            remedy="copy both meta.properties again; if the brokers' are the same, the second broker cannot register with the controller",
        )


def without_older_collections(brokers: Sequence[tuple[Path, int]]) -> tuple[set[Path], list[Problem]]:
    """Return the folders without those whose broker was collected again into another, and the problems that say so.

    Both name the broker's own files, so that only one of them can be read; the one that was finished last.

    Args:
        brokers: every folder with its broker.
    """
    finished: defaultdict[int, list[tuple[int, Path]]] = defaultdict(list)
    times = Counter(broker for _path, broker in brokers)
    for path, broker in brokers:
        if times[broker] > 1 and (at := _finished_at_ms(path)) is not None:
            finished[broker].append((at, path))
    older: set[Path] = set()
    problems = []
    for broker, collections in finished.items():
        newest = max(collections)[1]
        for _at, path in sorted(collections):
            if path != newest:
                older.add(path)
                detail = f"two collections of broker {broker}: {newest} and {path}. The first, which was finished later, is judged"
                problems.append(Problem(path=str(path), kind="directory", code=COPIED_TWICE, detail=detail, remedy=_REMEDY))
    return older, problems


def _finished_at_ms(folder: Path) -> int | None:
    """Time at which a collection was finished; None if the folder is none, or its manifest is unreadable, which the listing reports."""
    try:
        return read(folder / MANIFEST, lambda _directory: False).finished_at_ms
    except (MetadataError, OSError):
        return None


NOTHING_RECOGNISED = "nothing-recognised"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFolder:
    """A folder below which one broker's files lie."""

    path: Path
    broker_id: int
    cluster_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One cluster in the input. `head` is None where there is no usable cluster-metadata.json.

    `server_logs` are those that lie beside the brokers' folders, with the broker's id; `described` are files there in which tools tell the
    leaders.
    """

    path: Path
    cluster_id: str
    brokers: tuple[BrokerFolder, ...]
    metadata_path: Path | None = None
    head: cluster_metadata.ClusterMetadata | None = None
    server_logs: tuple[tuple[int, Path], ...] = ()
    described: tuple[Path, ...] = ()

    def sources(self) -> Iterator[tuple[str, int | None, str, str]]:
        """Everything that the inventory lists: cluster id, broker id, path and kind (broker, server-log, metadata)."""
        for broker in self.brokers:
            yield self.cluster_id, broker.broker_id, str(broker.path), "broker"
        for broker_id, path in self.server_logs:
            yield self.cluster_id, broker_id, str(path), "server-log"
        for path in ((self.metadata_path,) if self.metadata_path else ()) + self.described:
            yield self.cluster_id, None, str(path), "metadata"


@dataclass(slots=True)
class Found:
    """Everything below the inputs. `problems` are those that belong to no broker's files, with their cluster id if there is one."""

    roots: list[Root] = field(default_factory=list)
    problems: list[tuple[str | None, Problem]] = field(default_factory=list)

    @property
    def every_input_was_read(self) -> bool:
        """Return True if no input as a whole has a problem."""
        return not self.unread_inputs

    @property
    def unread_inputs(self) -> list[Problem]:
        """Problems of inputs that could not be read at all."""
        return [problem for _cluster, problem in self.problems if problem.kind == INPUT]

    def problem_rows(self) -> list[dict[str, object]]:
        """The problems as rows of `input_errors`, without the keys of a run and a broker."""
        return [{"cluster_id": cluster or NO_CLUSTER, **asdict(problem)} for cluster, problem in self.problems]


def discover(inputs: Sequence[str], metadata: Path | None = None, *, follow_links: bool = False) -> Found:
    """Find every cluster. From here on this process opens nothing to which a link leads out of an input.

    Args:
        inputs: directories, or URIs of `file:` or of a store that `files.locations` knows: a root with a folder per broker, a folder of
            such roots, or one broker's folder.
        metadata: a cluster-metadata.json given apart; it belongs to the only root, or to the one with its cluster id.
        follow_links: whether links are followed out of the inputs all the same.

    Raises:
        UsageError: two roots hold the same cluster, or `metadata` fits none, or an input is of a kind that cannot be read.
    """
    found = Found()
    for path in confined_to(inputs, metadata, follow_links=follow_links):
        find(path, found, Tree(found.problems))
    settle(found, metadata)
    return found


def confined_to(inputs: Sequence[str], metadata: Path | None = None, *, follow_links: bool) -> list[Path]:
    """Return the locations of the inputs, and confine this process to them unless links are to be followed.

    Raises:
        UsageError: an input is of a kind that cannot be read.
    """
    paths = [location(given) for given in inputs]
    local = [path for path in (*paths, *([metadata] if metadata else [])) if not is_stored(path)]
    (release if follow_links else confine)(local)
    return paths


def find(path: Path, found: Found, tree: Tree) -> Tree | None:
    """Add the clusters of one input, with a tree that reports to what was found; None if the input cannot be looked into at all."""
    problem = why_unusable(path)
    if problem:
        found.problems.append((None, problem))
        return None
    roots = list(tree.roots(path))
    if not roots:
        found.problems.append((None, _nothing_there(path)))
    for root, folders in roots:
        _add(found, root, folders, tree)
    _leave_to_the_brokers(found, tree)
    if tree.folders.is_partial:
        detail = "it has more than 20,000 folders, and the search for brokers' folders stops there: some may be missing"
        remedy = "give the clusters' own folders, each as an --input"
        found.problems.append((None, Problem(path=str(path), kind=INPUT, code="too-many-folders", detail=detail, remedy=remedy)))
    return tree


def _leave_to_the_brokers(found: Found, tree: Tree) -> None:
    """Drop links out of the input in brokers' folders: the listings of those report them."""
    brokers = {tree.folders.real(broker.path) for root in found.roots for broker in root.brokers}
    found.problems = [one for one in found.problems if one[1].code != LINK_OUTSIDE or brokers.isdisjoint(_folders_of(one[1], tree))]


def _folders_of(problem: Problem, tree: Tree) -> Iterator[str]:
    folder = Path(tree.folders.real(Path(problem.path).parent))
    return map(str, (folder, *folder.parents))


def settle(found: Found, metadata: Path | None) -> None:
    """Compare the clusters of all inputs, and assign a separate cluster-metadata.json to its cluster.

    Raises:
        UsageError: as `discover`.
    """
    _refuse_twins(found.roots)
    if metadata is not None:
        _give_metadata(found, metadata)


def _nothing_there(path: Path) -> Problem:
    empty = next(path.iterdir(), None) is None
    return Problem(
        path=str(path),
        kind=INPUT,
        code=NOTHING_RECOGNISED,
        detail="the directory is empty" if empty else "no broker's folder, no log directory and no text of kafka-dump-log in it",
        remedy="give a directory with one folder per broker (broker-1, broker-2, ...), each with the broker's log directories below it",
    )


def _add(found: Found, path: Path, folders: list[Path], tree: Tree) -> None:
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
    older, problems = without_older_collections([(broker.path, broker.broker_id) for broker in kept])
    found.problems += [(cluster_id, problem) for problem in problems]
    kept = [broker for broker in kept if broker.path not in older]
    if folders == [path] and kept:
        apart = neighbours_left_out(path, kept[0].broker_id, kept[0].cluster_id, INPUT)
        found.problems += [(cluster_id, apart)] if apart else []
    if kept:
        pasted = described(path, folders, tree, has_document=head is not None)
        found.problems += [(cluster_id, problem) for problem in pasted.problems]
        found.roots.append(
            Root(
                path=path,
                cluster_id=cluster_id,
                brokers=tuple(kept),
                metadata_path=metadata_path if _is_there(metadata_path) else None,
                head=head or pasted.head,
                described=pasted.paths,
                server_logs=tuple(tree.server_logs(path)) if folders != [path] else (),
            )
        )


def _broker(found: Found, folder: Path, tree: Tree) -> BrokerFolder | None:
    said = next(iter(tree.metas(folder)), None)
    named = log_dir.is_broker_folder(folder.name)
    broker_id = said.broker_id if said else named
    if broker_id is None:
        detail = "no meta.properties below it, and its name does not name a broker (broker-3, broker=3, 3)"
        remedy = "rename the folder to broker-ID or copy meta.properties too"
        found.problems.append((None, Problem(path=str(folder), kind="directory", code="unknown-broker", detail=detail, remedy=remedy)))
        return None
    if named is not None and named != broker_id and folder.name.startswith("broker"):
        detail = f"the folder is named for broker {named}, but its meta.properties says {broker_id}, which counts"
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


def _is_there(path: Path) -> bool:
    """Return True if a name exists, even as a dangling link."""
    return path.is_symlink() or path.exists()


def _head(path: Path) -> cluster_metadata.ClusterMetadata | None:
    try:
        return metadata_files.read_head(path)
    except (MetadataError, OSError):
        return None  # reported when its partitions are read


def read_metadata(path: Path) -> cluster_metadata.ClusterMetadata:
    """The head of a cluster-metadata.json, or of what a tool prints, that was given apart.

    Raises:
        UsageError: it is malformed, or cannot be read.
    """
    try:
        return metadata_files.read(path).head
    except MetadataError as error:
        where = f" at line {error.line}" if error.line else ""
        raise UsageError(f"--cluster-metadata {path}: {error.reason}{where}") from None
    except OSError as error:
        raise UsageError(f"--cluster-metadata {path}: {error.strerror or error}") from None


def _give_metadata(found: Found, path: Path) -> None:
    """Replace the root's own cluster-metadata.json by a separate one."""
    head = read_metadata(path)
    fitting = [root for root in found.roots if head.cluster_id == root.cluster_id]
    if not fitting and len(found.roots) == 1 and (head.cluster_id is None or found.roots[0].cluster_id == str(found.roots[0].path)):
        fitting = found.roots
    if found.roots and not fitting:
        raise UsageError(f"--cluster-metadata {path}: its cluster_id {head.cluster_id} is not that of any input")
    for root in list(fitting):
        found.roots[found.roots.index(root)] = replace(
            root, cluster_id=head.cluster_id or root.cluster_id, metadata_path=path, head=head, described=()
        )


def _refuse_twins(roots: Sequence[Root]) -> None:
    first: dict[str, Root] = {}
    for root in roots:
        twin = first.setdefault(root.cluster_id, root)
        if twin is not root:
            raise UsageError(
                f"{twin.path} and {root.path} both hold cluster {root.cluster_id}: one run compares replicas of one moment. "
                "If these are two copies, audit each in its own run; if they are brokers of one copy, put them into one folder"
            )


def problems_of_input(
    found: Found, facts: Mapping[str, ClusterFacts], inputs: Sequence[str], topics: str, *, has_replicas: bool
) -> Iterator[tuple[str | None, Problem]]:
    """Yield the problems of inputs as a whole, each with its cluster's id, or None.

    It holds no replica; or brokers that a cluster's metadata names are missing, unless that is reported already, or are there twice.
    """
    if not has_replicas:
        yield None, _no_replicas(inputs, topics)
    reported = {cluster for cluster, problem in found.problems if problem.code == ONE_OF_SEVERAL}
    for root in found.roots:
        present = (broker.broker_id for broker in root.brokers)
        problem = lacking(root.metadata_path or root.path, present, facts[root.cluster_id].named)
        if problem is not None and root.cluster_id not in reported:
            yield root.cluster_id, problem
        of_cluster = facts[root.cluster_id]
        for copied in (*of_log_directories(of_cluster.other_copies), *of_shared_ids(of_cluster.shared_ids)):
            yield root.cluster_id, copied


def about_cluster(root: Root, facts: ClusterFacts) -> dict[str, object]:
    """Columns of a cluster's row in `audit_runs` that are not counts of its tables."""
    return {
        "protocol": str(facts.applies),
        "protocol_reason": facts.generation.reason,
        "kafka_version": facts.kafka_version,
        "path": str(root.path),
        "brokers": len({broker.broker_id for broker in root.brokers}),
        "broker_ids": sorted({broker.broker_id for broker in root.brokers}),
        "has_metadata": root.head is not None,
    }


def _no_replicas(inputs: Sequence[str], topics: str) -> Problem:
    """That the inputs hold no replica of any topic, or of one that `topics`, a regular expression, matches."""
    chosen = f" of a topic that matches {topics!r}" if topics else ""
    return Problem(
        path=", ".join(inputs),
        kind="input",
        code="no-replicas",
        detail=f"no replica directory{chosen} was found",
        remedy="check --topics and --input" if chosen else "give the directories that hold TOPIC-PARTITION folders with .log files",
    )
