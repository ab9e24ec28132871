"""Columns of `replica_verdicts` that keep what was decided beside the verdict, each as values: nothing of it is read from the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum

from replica_audit.protocol.afterwards import conflicts, differences
from replica_audit.protocol.comparison import Comparison
from replica_audit.protocol.lineage import Piece
from replica_audit.protocol.verdict import Judgement
from replica_audit.transforms.rows import Row

DECIDED_COLUMNS = ("cause", "wrong_epoch", "did_otherwise", "differences", "conflicts", "cleaned_beyond_cut")


def decided_columns(comparison: Comparison, judgement: Judgement) -> Row:
    """The columns of DECIDED_COLUMNS."""
    return {
        "cause": optional_text(judgement.cause),
        "wrong_epoch": None if judgement.wrong_epoch is None else asdict(judgement.wrong_epoch),
        "did_otherwise": None if comparison.did_otherwise is None else asdict(comparison.did_otherwise),
        "differences": _pieces(differences(comparison)),
        "conflicts": _pieces(conflicts(comparison)),
        "cleaned_beyond_cut": comparison.cleaned_beyond_the_cut,
    }


def optional_text(value: StrEnum | None) -> str | None:
    """A code as a column holds it."""
    return None if value is None else str(value)


def _pieces(pieces: Iterable[Piece]) -> list[Row]:
    return [
        {"first_offset": one.first_offset, "end_offset": one.end_offset, "leader_epoch": one.left_epoch, "follower_epoch": one.right_epoch}
        for one in pieces
    ]
