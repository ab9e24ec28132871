"""Log directories as a listing tells them."""

from __future__ import annotations

from typing import Any

from replica_audit.model import LogDirectory


def log_directory(path: str, **fields: Any) -> LogDirectory:
    """A whole one without a replica, of a KRaft broker; `fields` replace what it is."""
    ordinary: dict[str, Any] = {
        "folder": "broker-1",
        "path": path,
        "directory_id": None,
        "is_kraft": True,
        "is_whole": True,
        "reaches": 0,
        "replicas": 0,
        "sample": (),
        "without_directory": (),
    }
    return LogDirectory(**(ordinary | fields))
