"""Files of a replica in a folder that is none, and folders in a replica."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replica_audit.files.tree_walk import Folder
from replica_audit.formats.log_dir import checkpoints
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.small_files import SmallFiles
from replica_audit.model import Problem


def misplaced(folder: Folder, small: SmallFiles) -> Iterator[Problem]:
    """What is wrong with them: they are not used."""
    segments = [file for file in folder.files if log_dir.segment_name(file)]
    if segments:
        yield Problem(
            path=str(folder.path),
            kind="directory",
            code="segments-outside-a-replica",
            detail=f"no TOPIC-PARTITION is known for the folder; segments left out: {len(segments)}",
            remedy="put them into a folder named after their TOPIC-PARTITION, beside its leader-epoch-checkpoint",
        )
    parsers: dict[str, Callable[[bytes], object]] = {
        log_dir.EPOCH_CHECKPOINT: checkpoints.leader_epoch_lines,
        log_dir.PARTITION_METADATA: checkpoints.topic_id,
    }
    for file, parser in parsers.items():
        if file in folder.files:
            problems: list[Problem] = []
            if small.parse(folder.path / file, parser, problems) is not None:
                detail, remedy = (
                    "is not in a replica directory, and is not used",
                    "put it into the replica directory that it belongs to",
                )
                problems.append(Problem(path=str(folder.path / file), kind=file, code="misplaced", detail=detail, remedy=remedy))
            yield from problems


def folders_in(folder: Folder) -> Iterator[Problem]:
    """The folders in a replica directory."""
    for nested in folder.folders:
        if not log_dir.segment_name(nested) and nested not in (log_dir.EPOCH_CHECKPOINT, log_dir.PARTITION_METADATA):
            yield Problem(
                path=str(folder.path / nested),
                kind="directory",
                code="folder-in-a-replica",
                detail="a folder in a replica directory is not read; a broker does not read it either",
                remedy="none, if it is not a replica; else move it out",
            )
