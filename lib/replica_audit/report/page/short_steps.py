"""A step of an exchange in a few words, to be written beside its arrow in a picture."""

from __future__ import annotations

from typing import assert_never

from replica_audit.report.facts.exchange_steps import ExplainedStep
from replica_audit.report.layout.paragraphs import epoch
from replica_audit.rows.codes import Case


def in_few_words(step: ExplainedStep) -> tuple[str, str, str]:
    """Question, answer and effect; the exchange in full stands below the picture."""
    does = "" if step.truncate_to is None else f"truncates to {step.truncate_to}"
    if step.case is Case.OUT_OF_RANGE_RESTART:
        does = f"starts again, empty, at {step.offset}"
    if step.number is None:
        return f"falls back to its high watermark {step.offset}", "", does
    asked = f"fetches from {step.log_end_offset}" if step.fetches else f"asks where {epoch(step.requested_epoch)} ends"
    if step.fetches and step.requested_epoch is not None:
        asked += f" ({epoch(step.requested_epoch)})"
    match step.case:
        case Case.RECORDS:
            answer = "leader: records"
        case Case.UNDEFINED:
            answer = "leader: does not know"
        case Case.NO_EPOCH:
            answer = f"leader: {step.answered_end_offset}"
        case Case.OUT_OF_RANGE_LONGER | Case.OUT_OF_RANGE_RESTART | Case.OUT_OF_RANGE_AGAIN:
            answer = "leader: out of range"
        case Case.COMMON_EPOCH | Case.UNKNOWN_EPOCH | Case.LATER_EPOCH:
            answer = f"leader: {epoch(step.answered_epoch)} ends at {step.answered_end_offset}"
        case Case.HIGH_WATERMARK:
            answer = ""  # nothing was asked
        case _ as never:
            assert_never(never)
    return asked, answer, does
