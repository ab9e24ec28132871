"""An input as it was given: where it is, and why it cannot be looked into."""

from __future__ import annotations

import errno
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from replica_audit.errors import UsageError
from replica_audit.files.locations import SCHEMES, located
from replica_audit.model import CANNOT_READ, Problem
from replica_audit.storage.inputs.listed_folders import is_printable

INPUT = "input"  # the kind of a problem of an input as a whole, of which nothing is known then


def unusable(inputs: Sequence[str]) -> list[Problem]:
    """The local inputs that cannot be looked into at all; what is in a store can be told only with what Spark knows of it.

    Raises:
        UsageError: an input is of a kind that cannot be read.
    """
    local = [location(given) for given in inputs if given.startswith("file:") or "://" not in given]
    return [problem for path in local if (problem := why_unusable(path)) is not None]


def location(given: str) -> Path:
    """Where an input is.

    Raises:
        UsageError: it is of a kind that cannot be read.
    """
    if not given:
        raise UsageError("--input: empty; give a directory")
    if given.startswith("file:"):
        parts = urlsplit(given)
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"--input {given}: names another host; give file:///path")
        return Path(unquote(parts.path)).absolute()
    if "://" in given:
        return _in_a_store(given)
    try:
        return Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"--input {given}: {error}") from None


def _in_a_store(given: str) -> Path:
    scheme, _, rest = given.partition("://")
    if scheme not in SCHEMES:
        known = ", ".join(f"{scheme}:" for scheme in SCHEMES)
        raise UsageError(f"--input {given}: only local directories and URIs of file:, {known} can be read; copy the files")
    bucket, _, key = rest.rstrip("/").partition("/")
    if not bucket or any(part in ("", ".", "..") for part in key.split("/") if key):
        raise UsageError(f"--input {given}: give {scheme}://BUCKET/FOLDER")
    return located(given)


def why_unusable(path: Path) -> Problem | None:
    """Why an input cannot be looked into; None if it can."""

    def problem(code: str, detail: str, remedy: str) -> Problem:
        shown = str(path).encode("utf-8", "replace").decode()
        return Problem(path=shown, kind=INPUT, code=code, detail=detail, remedy=remedy)

    try:
        is_directory = stat.S_ISDIR(path.stat().st_mode)
        if is_directory:
            next(path.iterdir(), None)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            remedy = getattr(error, "remedy", "give the user who runs the audit read permission on it and on the folders above it")
            return problem(CANNOT_READ, error.strerror or str(error), remedy)
        return problem("no-such-path", "does not exist", "check the path given to --input")
    if not is_directory:
        return problem("not-a-directory", "is not a directory", "give the directory that holds one folder per broker")
    if not is_printable(str(path)):
        return problem("name-not-utf8", "the name is not UTF-8", "rename the directory")
    return None
