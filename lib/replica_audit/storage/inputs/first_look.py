"""Quick check, before anything is started or written, that the inputs hold something to audit; takes well below a second."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from replica_audit.errors import UsageError
from replica_audit.files.locations import StoredPath
from replica_audit.model import Problem
from replica_audit.storage.inputs import sources
from replica_audit.storage.inputs.folders import MOST_FOLDERS, Tree

_LOOKED_AT = 2_000  # directories: of a larger input the run itself finds out
_SHOWN = 5
_STORE_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")
_SPARK_STORE = "fs.s3a."


def refuse_useless(found: sources.Found) -> None:
    """Raise if the inputs hold nothing to audit.

    Raises:
        UsageError: there is no cluster, or nothing in any broker's folder; with what is wrong with each input and what to do.
    """
    if found.roots:
        return
    problems = [problem for _cluster, problem in found.problems]
    exact = [problem.path for problem in problems if problem.code != sources.NOTHING_RECOGNISED]
    # what is wrong with a folder of an input says more than that nothing was recognised in the input
    told = [one for one in problems if one.path in exact or not any(path.startswith(f"{one.path}/") for path in exact)]
    told = [one for one in told if one.code != sources.NOTHING_RECOGNISED or one.path not in exact]
    raise UsageError("there is nothing to audit", *map(_line, told[:_SHOWN]), *_more(len(told) - _SHOWN))


def _line(problem: Problem) -> str:
    return f"  {problem.path}: {problem.detail}; {problem.remedy}"


def _more(count: int) -> list[str]:
    return [f"  and {count} more"] if count > 0 else []


def look(inputs: Sequence[str], metadata: Path | None = None, *, follow_links: bool = False, thorough: bool = False) -> None:
    """Check the inputs by listings alone.

    Args:
        inputs: as of `sources.discover`. A store is asked only if what opens it is known here: Spark may be told other credentials.
        metadata: a cluster-metadata.json given apart.
        follow_links: as of `sources.discover`.
        thorough: look as far as an audit does, and not only as far as a second allows.

    Raises:
        UsageError: as `sources.discover`; or nothing in the inputs can be audited.
    """
    given = sources.confined_to(inputs, metadata, follow_links=follow_links)
    if metadata is not None:
        sources.read_metadata(metadata)
    asked = [path for path in given if not isinstance(path, StoredPath) or _opens_stores(path)]
    if len(asked) < len(given):
        return
    found = sources.Found()
    trees = [sources.find(path, found, Tree(found.problems, MOST_FOLDERS if thorough else _LOOKED_AT)) for path in given]
    if any(tree is not None and tree.folders.is_partial for tree in trees):
        return
    sources.settle(found, metadata)
    refuse_useless(found)
    _refuse_empty(found)


def _opens_stores(path: Path) -> bool:
    """Return True if this process has the same access to a store as Spark."""
    is_told_spark = _SPARK_STORE in os.environ.get("SPARK_SUBMIT_ARGS", "")
    return str(path).startswith("s3") and not is_told_spark and any(name in os.environ for name in _STORE_VARIABLES)


def _refuse_empty(found: sources.Found) -> None:
    """Raise if the brokers' folders hold no file at all."""
    tree = Tree([])
    brokers = [broker.path for root in found.roots for broker in root.brokers]
    if any(root.server_logs for root in found.roots) or any(tree.holds_files(path) for path in brokers):
        return
    remedy = "copy the brokers' log directories into them"
    raise UsageError("there is nothing to audit", *(f"  {path}: no file in it; {remedy}" for path in brokers[:_SHOWN]))
