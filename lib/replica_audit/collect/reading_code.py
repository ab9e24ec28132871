"""Which code made the rows of a collection: rows are taken over only from the same, for another may have read the same bytes otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

# of the package what reading a segment imports, and what it could: changed code that does not matter costs one full collection
ROOMS = ("collect", "errors", "files", "formats", "frozen", "garbage", "model", "protocol", "tables", "words")


@cache
def reading_code() -> str:
    """A digest of the sources that decide what the rows of a segment hold, in hexadecimal digits."""
    made = hashlib.blake2b(digest_size=16)
    package = files("replica_audit")
    for name, source in sorted(_sources(package, "")):
        if name.split("/")[0].removesuffix(".py") in ROOMS:
            made.update(f"{name}\n{hashlib.blake2b(source.read_bytes()).hexdigest()}\n".encode())
    return made.hexdigest()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry
