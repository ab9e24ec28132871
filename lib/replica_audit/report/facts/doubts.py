"""What keeps a run without findings from being an all-clear, besides followers that could not be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """What of the input was not read, or not as a whole, and whose clean verdicts rest on a guess.

    `unread` counts problems by their codes (`model.problem_codes`), `first_unread` is the path of the first by its name. `guessed_leaders`
    counts clean followers of a leader that is only inferred, `keys_may_differ` those of a compacted partition that an unclean election or a
    truncation has touched, and whose keys were not compared. `unknown_topic_ids`: replicas that a broker sets aside, unless the copy lacks
    their partition.metadata by mistake. `undated_leaders`: clean followers, not identical, of a leader whose epoch is unknown: nothing
    shows that it led when the logs were copied.
    """

    unread: Mapping[str, int] = field(default_factory=dict)
    first_unread: str = ""
    guessed_leaders: int = 0
    keys_may_differ: int = 0
    unknown_topic_ids: int = 0
    undated_leaders: int = 0

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.unread or self.guessed_leaders or self.keys_may_differ or self.unknown_topic_ids or self.undated_leaders)


NO_DOUBTS = Doubts()
