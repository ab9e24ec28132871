"""Settings of a topic that elections and reassignments go by, as a configuration has them: text (TopicConfig, ConfigDef.parseType)."""

from __future__ import annotations

UNCLEAN_ELECTION = "unclean.leader.election.enable"
REMOTE_STORAGE = "remote.storage.enable"  # of a topic (KIP-405)
_FLAGS = {"true": True, "false": False}
_LONGEST = len(str(2**31 - 1))


def flag_in(value: object) -> bool | None:
    """What a setting of two values says; None where there is none, or it is neither."""
    return None if value is None else _FLAGS.get(str(value).strip().lower())


def count_in(value: object) -> int | None:
    """The number of replicas that a setting gives, from 1; None where there is none, or it is not such a number."""
    text = "" if value is None else str(value).strip()
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LONGEST
    return int(text) if is_number and 1 <= int(text) < 1 << 31 else None
