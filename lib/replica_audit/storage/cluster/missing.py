"""What could not be learnt, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A part that a cluster did not tell. `broker` did not answer, or None where no single one is at fault.

    `harmless`: brokers of such an age never tell it, so nothing is partial.
    """

    what: str
    why: str
    broker: int | None = None
    harmless: bool = False

    def sentence(self) -> str:
        """For a person."""
        where = f" (broker {self.broker})" if self.broker is not None else ""
        return f"{self.what}{where}: {self.why}"

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {"what": self.what, "why": self.why, "broker": self.broker}
