"""Finding clusters and brokers below the inputs. Only folders and the few files that name them are looked at here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from replica_audit.errors import MetadataError, UsageError
from replica_audit.files.locations import is_stored
from replica_audit.files.opened import confine, release
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.metadata import cluster_metadata, metadata_files
from replica_audit.model import LINK_OUTSIDE, Problem
from replica_audit.rows.runs import NO_CLUSTER
from replica_audit.storage.inputs import missing_brokers
from replica_audit.storage.inputs.described import described
from replica_audit.storage.inputs.folders import Tree
from replica_audit.storage.inputs.given_input import INPUT, location, why_unusable
from replica_audit.storage.inputs.two_copies import without_older_collections

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
        """Whether no input as a whole is a problem."""
        return not self.unread_inputs

    @property
    def unread_inputs(self) -> list[Problem]:
        """The problems of inputs as a whole, of which nothing is known then."""
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
    """Where the inputs are, out of which no link is followed from now on, unless told otherwise.

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
    """Drop the links out of the input that lie in the folders of brokers: they are told where these are listed."""
    brokers = {tree.folders.real(broker.path) for root in found.roots for broker in root.brokers}
    found.problems = [one for one in found.problems if one[1].code != LINK_OUTSIDE or brokers.isdisjoint(_folders_of(one[1], tree))]


def _folders_of(problem: Problem, tree: Tree) -> Iterator[str]:
    folder = Path(tree.folders.real(Path(problem.path).parent))
    return map(str, (folder, *folder.parents))


def settle(found: Found, metadata: Path | None) -> None:
    """Hold the clusters of all inputs against each other, and give a cluster-metadata.json that was given apart to the one it is of.

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
        apart = missing_brokers.beside(path, kept[0].broker_id, kept[0].cluster_id, INPUT)
        found.problems += [(cluster_id, apart)] if apart else []
    if kept:
        beside = described(path, folders, tree, has_document=head is not None)
        found.problems += [(cluster_id, problem) for problem in beside.problems]
        found.roots.append(
            Root(
                path=path,
                cluster_id=cluster_id,
                brokers=tuple(kept),
                metadata_path=metadata_path if _is_there(metadata_path) else None,
                head=head or beside.head,
                described=beside.paths,
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
    """Whether there is anything of a name, be it a link to nothing."""
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
    """Put a cluster-metadata.json that was given apart in the place of the root's own."""
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
