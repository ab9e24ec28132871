"""What a collection holds, told of where it lay on the broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from replica_audit.formats.collection.broker_folder import CollectedLogDir
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
        problems=(*(problem_on_the_broker(problem, (store,)) for problem in replica.problems), *store.no_files(replica)),
        **cast(Any, said.later),
    )


def problem_on_the_broker(problem: Problem, stores: Iterable[CollectedLogDir]) -> Problem:
    """A problem of a copied file, told of the file on the broker; one of what `collect` itself wrote stays."""
    for store in stores if problem.kind != "collection" else ():
        if (path := store.original(problem.path)) != problem.path:
            return replace(problem, path=path)
    return problem
