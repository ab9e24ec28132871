"""Paths relative to the folder of all log directories: what is the same in every line says nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from replica_audit.rows.replicas import ReplicaLog


def common_folder(logs: Sequence[ReplicaLog]) -> str:
    """The deepest folder that holds all log directories; empty if there is none."""
    folders = {posixpath.dirname(log.log_dir) for log in logs}
    return posixpath.commonpath(folders) if folders and len({path.startswith("/") for path in folders}) == 1 else ""


def below(folder: str, text: str) -> str:
    """A text without the folder that its paths begin with."""
    return text.replace(f"{folder}/", "") if folder.strip("/") else text


def lies_in(folder: str, path: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")
