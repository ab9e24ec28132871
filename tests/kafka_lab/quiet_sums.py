"""What the audits of `quiet` came to."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

Key = tuple[str, int, int]


@dataclass(slots=True)
class Quiet:
    """What the audits of a run said; `inconclusive` counts the reasons, without the numbers in them.

    `by_way` has the verdicts of each way in which the brokers were copied.
    `tails` are stale tails that were true: the broker was being restarted, and its own log says that it then cut just there.
    `clean_over_planted` are the verdicts without severity over an epoch that was planted, also beyond a leader's copy.
    """

    audits: int = 0
    alarms: list[str] = field(default_factory=list)
    by_way: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    inconclusive: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    suspects: list[tuple[Key, int, int, str]] = field(default_factory=list)
    tails: int = 0
    planted: int = 0
    found: int = 0
    planted_beyond: int = 0
    clean_over_planted: list[str] = field(default_factory=list)
    bounds: Counter[str] = field(default_factory=Counter)
    planted_records: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.most_common())
        ways = ", ".join(f"{way}: {of_way['inconclusive'] / of_way.total():.1%} of {of_way.total()}" for way, of_way in self.by_way.items())
        records = ", ".join(f"{count} {kind}" for kind, count in self.planted_records.most_common())
        return (
            f"{self.audits} audits, {self.verdicts.total()} followers: {len(self.alarms)} false alarms, "
            f"{self.tails} true tails of brokers in a restart; {self.found} of {self.planted} planted divergences found; "
            f"planted beyond a leader's copy: {self.planted_beyond}, clean over what was planted: {len(self.clean_over_planted)}; "
            f"planted in records: {records or 'none'}, {len(self.missed)} not found as they are ({verdicts}); "
            f"consistent by: {dict(self.bounds) or 'none'}; "
            f"input problems: {dict(self.problems) or 'none'}; inconclusive: {ways}; {dict(self.inconclusive) or 'none'}"
        )

    @property
    def verdicts(self) -> Counter[str]:
        """The verdicts of all ways."""
        return sum(self.by_way.values(), Counter())
