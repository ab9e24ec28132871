"""Where the whole of a shortened list is: in a table of the warehouse; of a run that keeps none, what would keep it."""

from __future__ import annotations


def whole_in(place: str, warehouse: str) -> str:
    """The end of a line that leaves something out.

    Args:
        place: the table that holds all of it, or a column of one.
        warehouse: of the run; empty if it keeps no tables.
    """
    return f"in {place}" if warehouse else f"(not kept; audit writes all to {place})"
