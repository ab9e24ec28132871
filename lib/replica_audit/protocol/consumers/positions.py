"""What an epoch-aware consumer makes of its position after leaders changed.

Source: KIP-320; SubscriptionState.maybeCompleteValidation and OffsetsForLeaderEpochUtils (clients, 4.2.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from replica_audit.model import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from replica_audit.protocol.epochs.epoch_table import EpochTable, end_offset_for


class Validation(StrEnum):
    """The outcome of a position's validation."""

    VALID = "valid"
    TRUNCATED = "truncated"
    UNDEFINED = "undefined"
    NOT_VALIDATED = "not-validated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionValidation:
    """What validation finds.

    `reset_offset` and `reset_epoch`: where a truncated consumer that has a reset policy resumes; None in every other case.
    """

    result: Validation
    reset_offset: int | None = None
    reset_epoch: int | None = None


def validate_position(leader_epochs: EpochTable, leader_log_end_offset: int, offset: int, offset_epoch: int | None) -> PositionValidation:
    """Validate a position (next offset to read, epoch of the last record consumed) against the leader's table.

    An unknown epoch (None or -1) is never validated. The answered epoch is not compared, only its end offset (exclusive).
    """
    if offset_epoch is None or offset_epoch == UNDEFINED_EPOCH:
        return PositionValidation(result=Validation.NOT_VALIDATED)
    answer = end_offset_for(leader_epochs, offset_epoch, leader_log_end_offset)
    if answer.epoch == UNDEFINED_EPOCH or answer.start_offset == UNDEFINED_EPOCH_OFFSET:
        return PositionValidation(result=Validation.UNDEFINED)
    if answer.start_offset < offset:
        return PositionValidation(result=Validation.TRUNCATED, reset_offset=answer.start_offset, reset_epoch=answer.epoch)
    return PositionValidation(result=Validation.VALID)
