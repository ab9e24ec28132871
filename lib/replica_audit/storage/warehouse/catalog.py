"""Where tables live: a directory, a URI, or a schema of Spark's catalog."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")


def is_catalog_name(location: str) -> bool:
    """Whether a location is `catalog.schema`."""
    return _NAME.fullmatch(location) is not None
