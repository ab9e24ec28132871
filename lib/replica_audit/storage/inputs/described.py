"""Metadata beside the brokers' folders that is no cluster-metadata.json: what tools printed, and people pasted into files of any name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from replica_audit.errors import MetadataError
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.metadata import metadata_files
from replica_audit.formats.metadata.cluster_metadata import ClusterMetadata
from replica_audit.formats.metadata.metadata_files import TELLS_LEADERS, Made, MetadataFile
from replica_audit.model import PartitionMetadata, Problem
from replica_audit.storage.inputs.folders import Tree

_SNIFFED = 100  # files that are looked into
_NO_TEXT = (".properties", ".md", ".parquet", ".tar", ".tgz", ".zip", ".zst", ".xz", ".bz2", ".7z", ".html")


@dataclass(slots=True)
class Described:
    """The files that are used, what they say of the cluster (None if there is none), and what is wrong, or not used, of all."""

    paths: tuple[Path, ...]
    head: ClusterMetadata | None
    problems: list[Problem]


def described(root: Path, folders: Sequence[Path], tree: Tree, *, has_document: bool) -> Described:
    """What was pasted beside brokers' folders; where there is a readable cluster-metadata.json, or several tools', one kind counts.

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
    """Leave out the files that say different things of one partition: which is the newer one is not known."""
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
