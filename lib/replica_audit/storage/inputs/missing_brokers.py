"""Brokers of a cluster that the input lacks: those whose folders lie beside it, and those that the metadata names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from replica_audit.files.locations import entries
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.model import Problem
from replica_audit.storage.inputs.folders import Tree
from replica_audit.storage.inputs.listed_folders import is_printable

ONE_OF_SEVERAL = "one-broker-of-several"
_LEVELS = 2  # a broker's folder, or one of its log directories
_LOOKED_AT = 64  # folders beside an input


def beside(path: Path, broker_id: int, cluster_id: str | None, kind: str) -> Problem | None:
    """That an input is one broker's folder, or log directory, and other brokers of its cluster lie beside it; None if none does.

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
    """The ids of other brokers whose folders are named like this one, except for the numbers."""
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
