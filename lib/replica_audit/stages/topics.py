"""Which topics a run looks at: the one place that applies the setting `topics`."""

from __future__ import annotations

import re
from collections.abc import Callable


def topic_filter(topics: str) -> Callable[[str], bool]:
    """A test of a topic's name: its whole must match the regular expression `topics` (Python's syntax); every name passes an empty one."""
    pattern = re.compile(topics or ".*", re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None
