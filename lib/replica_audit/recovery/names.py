"""Names of topics, groups and transactional ids in file names, sentences and commands: whatever they hold, nothing obeys them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote as percent_encoded

from replica_audit.errors import visible

if TYPE_CHECKING:
    from replica_audit.recovery.facts import PartitionKey, ReplicaKey

_MARKDOWN = re.compile(r"[\\`<\[*_|]")
SOME = 5  # of several places, those that a sentence names
_LONGEST = 120  # a name of 255 bytes is what file systems take; others are put before and behind it


def file_name(name: str) -> str:
    """A name as part of a file name: letters, digits, `_`, `-` and inner dots stay, the rest is encoded; a long one ends in a digest."""
    made = percent_encoded(name, safe="", errors="surrogatepass").replace("~", "%7E")
    if made.startswith("."):
        made = f"%2E{made[1:]}"
    return made if len(made) <= _LONGEST else f"{made[:_LONGEST]}~{sha256(name.encode(errors='surrogatepass')).hexdigest()[:12]}"


def shown(name: str) -> str:
    """A name in a sentence of Markdown: as code, with what a terminal would obey as escapes and no end of the code inside."""
    return f"`{visible(name).replace('`', chr(92) + 'x60')}`"


def partition_shown(topic: str, partition: int) -> str:
    """A partition in a sentence of Markdown."""
    return shown(f"{topic}-{partition}")


def place_shown(of: PartitionKey | ReplicaKey) -> str:
    """A partition, or a replica, in a sentence of Markdown."""
    topic, partition, *broker = of
    return partition_shown(topic, partition) + "".join(f" on broker {one}" for one in broker)


def some(names: Sequence[str]) -> str:
    """The first few of several places, and how many more there are."""
    return f"{', '.join(names[:SOME])}{f' and {len(names) - SOME} more' if len(names) > SOME else ''}"


def plain(text: str) -> str:
    """A sentence with names in it: no character of them is Markdown, nor anything that a terminal would obey."""
    return _MARKDOWN.sub(r"\\\g<0>", visible(text))


def cell(text: str) -> str:
    """Markdown as a cell of a table, which nothing in it ends."""
    return text.replace("|", "\\|")
