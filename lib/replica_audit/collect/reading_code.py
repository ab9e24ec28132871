"""Which code made the rows of a collection: rows are taken over only from the same, for another may have read the same bytes otherwise."""

from __future__ import annotations

from replica_audit.program import digest_of_code

# of the package what reading a segment imports, and what it could: changed code that does not matter costs one full collection
ROOMS = ("collect", "errors", "files", "formats", "frozen", "garbage", "model", "own_folder", "protocol", "rows", "words")


def reading_code() -> str:
    """A digest of the sources that decide what the rows of a segment hold, in hexadecimal digits."""
    return digest_of_code(ROOMS)
