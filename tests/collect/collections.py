"""Collections of whole clusters, for tests: what `collect` makes of every broker's folder, side by side as an input of the audit."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from replica_audit.collect import CollectRequest, CollectResult, collect
from replica_audit.formats.collection.broker_folder import log_dirs_of as collected_log_dirs
from replica_audit.formats.collection.manifest import MANIFEST, SMALL_FILES_FILE, sealed
from replica_audit.formats.log_dir import names as log_dir


def log_dirs_of(broker: Path) -> list[Path]:
    """The log directories below a broker's folder: those that hold replicas, or the small files of one."""
    found = {
        path.parent
        for name in (log_dir.META_PROPERTIES, *log_dir.OFFSET_CHECKPOINTS)
        for path in broker.rglob(name)
        if log_dir.replica_directory(path.parent.name) is None or (path.parent / log_dir.META_PROPERTIES).exists()
    }
    return sorted(found)


def quietly(_event: object) -> None:
    """No progress."""


def collect_broker(broker: Path, output: Path, **options: Any) -> CollectResult:
    """Collect all log directories of a broker's folder."""
    broker_id = log_dir.is_broker_folder(broker.name)
    has_meta = any(broker.rglob(log_dir.META_PROPERTIES))
    request = CollectRequest(output=output, log_dirs=tuple(log_dirs_of(broker)), broker_id=None if has_meta else broker_id, **options)
    return collect(request, quietly)


def collect_cluster(root: Path, to: Path, **options: Any) -> Path:
    """Collect every broker of a root, and put what lies beside them there, too."""
    to.mkdir()
    for path in sorted(root.iterdir()):
        if path.is_dir() and log_dir.is_broker_folder(path.name) is not None:
            collect_broker(path, to, **options)
            for log in path.glob("server.log*"):
                shutil.copy(log, to / path.name / log.name)
        elif path.is_file():
            shutil.copy(path, to / path.name)
    return to


def small_files(broker: Path) -> dict[str, dict[str, bytes]]:
    """What the small files of every replica hold that were collected of a broker, by directory and name."""
    _manifest, found = collected_log_dirs(broker)
    return {directory: files for one in found.values() for directory, files in (one.small_files() or {}).items()}


def resealed(document: dict[str, Any]) -> bytes:
    """A manifest of what stands in a document, with the digest that it has to have."""
    return sealed(json.dumps({name: value for name, value in document.items() if name != "digest"}, indent=1))


def without_digests(document: dict[str, Any]) -> dict[str, Any]:
    """A manifest as earlier releases wrote it."""
    del document["digest"]
    for said in document["log_dirs"]:
        del said["file_digests"]
    return document


def as_version_1(broker: Path) -> Path:
    """Make a collection one of an earlier release, which had the small files of each replica in a folder of its name."""
    _manifest, found = collected_log_dirs(broker)
    for one in found.values():
        for directory, files in (one.small_files() or {}).items():
            (one.folder / directory).mkdir(exist_ok=True)
            for name, content in files.items():
                (one.folder / directory / name).write_bytes(content)
        (one.folder / SMALL_FILES_FILE).unlink()
    document = without_digests(json.loads((broker / MANIFEST).read_text()))
    for said in document["log_dirs"]:
        del said["small_files_bytes"], said["small_files_crc32c"]
    (broker / MANIFEST).write_text(json.dumps({**document, "version": 1}))
    return broker


OF_A_RUN = re.compile(r"(_at|_at_ms|^segments_bytes|^segments_crc32c|^digest)$")


def lasting(value: object) -> object:
    """What a command wrote without what differs between two runs: times, and sizes and digests of files that hold some."""
    if isinstance(value, dict):
        return {key: lasting(one) for key, one in value.items() if not OF_A_RUN.search(key)}
    return [lasting(one) for one in value] if isinstance(value, list) else value
