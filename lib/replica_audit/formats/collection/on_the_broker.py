"""What a collection holds, told of where it lay on the broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.collection.broker_folder import CollectedLogDir
from replica_audit.formats.collection.collection_manifest import CapturedLogDir
from replica_audit.model import Problem, ReplicaFiles


def as_on_the_broker(replica: ReplicaFiles, store: CollectedLogDir | None) -> ReplicaFiles:
    """A replica of a collection as it was on the broker, with what was read later than the copies of the offset checkpoints."""
    said = store.captured.get(replica.directory) if store else None
    if store is None or said is None:
        return replica
    return replace(
        replica,
        log_dir=store.said.path,
        folder=f"{store.folder}/{replica.directory}",  # a path made for each of them costs as much as all else here
        scans=store.rows_path,
        captured_at_ms=said.captured_at_ms,
        verified_at_ms=said.verified_at_ms,
        in_use=store.said.in_use is True,
        second_look=said.second_look,
        problems=(*(problem_on_the_broker(problem, (store,)) for problem in replica.problems), *_no_files(replica, store.said)),
        **cast(Any, said.later),
    )


def _no_files(replica: ReplicaFiles, said: CapturedLogDir) -> Iterator[Problem]:
    """What had a segment's name in the replica directory and was none."""
    scanned = {segment.path for segment in replica.segments} if said.unread else ()
    for one in said.unread:
        if one.kind == "segment" and one.path not in scanned and one.path.startswith(f"{said.path}/{replica.directory}/"):
            yield cannot_read(Path(one.path), "segment", OSError(0, one.reason))


def problem_on_the_broker(problem: Problem, stores: Iterable[CollectedLogDir]) -> Problem:
    """A problem of a copied file, told of the file on the broker; one of what `collect` itself wrote stays."""
    for store in stores if problem.kind != "collection" else ():
        if (path := store.original(problem.path)) != problem.path:
            return replace(problem, path=path)
    return problem
