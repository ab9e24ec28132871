"""Python's garbage collector, switched off where it costs much and finds nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Run a block without the cyclic garbage collector, and leave that as it was.

    For what makes hundreds of thousands of objects and no cycles among them: each pass over them is time lost.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
