"""Copies of the brokers' directories in the layout that the audit reads: a root with one folder per broker, and the controller's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.node import Node, State

_KEPT_ASIDE = shutil.ignore_patterns("*.index", "*.timeindex", "*.txnindex", "*.tmp")


@contextmanager
def held(lab: Lab) -> Iterator[None]:
    """Freeze every node that runs, the controller first, which then takes nobody for dead; for less than a session's time."""
    running = [node for node in [lab.controller, *lab.brokers.values()] if node.state is State.UP]
    for node in running:
        node.freeze()
    try:
        yield
    finally:
        for node in reversed(running):
            node.resume()


def copy_all(lab: Lab, root: Path) -> Path:
    """A copy of everything at one instant."""
    root.mkdir(parents=True)
    with held(lab):
        for node in [lab.controller, *lab.brokers.values()]:
            copy_node(node, root)
    return root


def copy_node(node: Node, root: Path, copy_file: Callable[[str, str], object] = shutil.copy2) -> None:
    """A copy of one node's log directories as they are, like `cp -r`: files that vanish under way are passed over.

    Args:
        node: the node.
        root: of all copies.
        copy_file: copies one file; it may take its time, as that of a large segment does.
    """
    for log_dir in node.log_dirs:
        target = root / node.folder.name / log_dir.name
        target.mkdir(parents=True, exist_ok=True)
        _copy_tree(log_dir, target, copy_file)


def _copy_tree(source: Path, target: Path, copy_file: Callable[[str, str], object]) -> None:
    try:
        shutil.copytree(source, target, ignore=_KEPT_ASIDE, dirs_exist_ok=True, copy_function=copy_file)
    except shutil.Error as error:
        gone = [text for _source, _target, text in error.args[0] if "No such file" not in str(text)]
        if gone:
            raise
    except FileNotFoundError:
        return
