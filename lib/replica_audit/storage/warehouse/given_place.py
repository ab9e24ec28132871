"""The place of a warehouse, as somebody gives it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from replica_audit.errors import UsageError
from replica_audit.storage.warehouse.catalog import is_catalog_name
from replica_audit.storage.warehouse.planted import refuse_planted


def is_directory(given: str) -> bool:
    """Whether a place is a directory of this machine, and neither a URI nor a catalog's schema."""
    return "://" not in given and not is_catalog_name(given)


def given_warehouse(given: str) -> str:
    """The place: a directory, which need not be there yet, becomes absolute; `catalog.schema` and URIs stay as they are.

    Raises:
        UsageError: no warehouse can be there.
    """
    if not is_directory(given):
        return given
    path = Path(given).expanduser().absolute()
    refuse_planted(path)
    try:
        there = next(one for one in (path, *path.parents) if one.exists())
    except OSError as error:
        raise UsageError(f"--warehouse {given}: {error.strerror}") from None
    if not there.is_dir():
        raise UsageError(f"--warehouse {given}: {'' if there == path else f'{there} '}is a file, not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        why = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
        raise UsageError(f"--warehouse {given}: {os.strerror(why)}: {there}; make it writable or give another --warehouse")
    return str(path)


def make_warehouse(given: str) -> str:
    """The place, and if it is a directory, that is there.

    Raises:
        UsageError: no warehouse can be there.
    """
    place = given_warehouse(given)
    if is_directory(place):
        try:
            Path(place).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--warehouse {given}: {error.strerror}") from None
    return place
