"""Texts, collections and brokers' logs, damaged in the shape in which they are given."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

from tests.mutation.damage.tree import Mutation, Tree, place_of

_NUMBERS = ("baseOffset", "lastOffset", "count", "partitionLeaderEpoch", "position", "size", "crc", "baseSequence", "producerId")


def text_line(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """A line of a text of kafka-dump-log: dropped, doubled, moved, cut, wrapped, or with another number."""
    paths = [path for path in tree.files if path.endswith(".txt") and path.rpartition("/")[0].endswith(f"/{partition}")]
    if not paths:
        return None
    path = rng.choice(paths)
    lines = tree.files[path].decode().splitlines(keepends=True)
    first = next((at for at, line in enumerate(lines) if line.startswith("baseOffset")), None)
    if first is None:
        return None
    which, at = place_of(rng, len(lines) - first)
    do, at = rng.choice(list(_LINES)), at + first
    made = "".join(_LINES[do](rng, lines, at)).encode()
    if made == tree.files[path]:
        return None
    before, after = tree.files[path].decode().split("\n"), made.decode().split("\n")
    changed = [name for name in _NUMBERS for one, other in zip(before, after, strict=False) if _value(name, one) != _value(name, other)]
    facts = {"which": which, "fields": changed} | {"whose": "leader" if path.startswith(f"{tree.leader_home(partition)}/") else "follower"}
    return Mutation(
        f"text {do}",
        partition,
        {path: made},
        f"{which} line of {path}: {lines[at].strip()[:90]} {changed if do == 'number' else ''}",
        facts,
    )


def _value(name: str, line: str) -> str | None:
    found = re.search(rf"\b{name}: (-?\d+)", line)
    return found[1] if found else None


def _number(rng: random.Random, lines: list[str], at: int) -> list[str]:
    name = rng.choice(_NUMBERS)
    more = rng.choice((-1, 1, 10))
    changed = re.sub(rf"\b{name}: (-?\d+)", lambda found: f"{name}: {int(found[1]) + more}", lines[at], count=1)
    return [*lines[:at], changed, *lines[at + 1 :]]


def _cut(rng: random.Random, lines: list[str], at: int) -> list[str]:
    return [*lines[:at], lines[at][: rng.randrange(1, len(lines[at]) - 1)]]


def _wrapped(rng: random.Random, lines: list[str], at: int) -> list[str]:
    place = rng.randrange(1, len(lines[at]) - 1)
    return [*lines[:at], f"{lines[at][:place]}\n{lines[at][place:]}", *lines[at + 1 :]]


_LINES: dict[str, Callable[[random.Random, list[str], int], list[str]]] = {
    "line dropped": lambda _rng, lines, at: lines[:at] + lines[at + 1 :],
    "line doubled": lambda _rng, lines, at: [*lines[: at + 1], *lines[at:]],
    "lines swapped": lambda _rng, lines, at: [*lines[:at], *lines[at : at + 2][::-1], *lines[at + 2 :]],
    "lines cut off": lambda _rng, lines, at: lines[:at],
    "line cut": _cut,
    "line wrapped": _wrapped,
    "number": _number,
    "not valid": lambda _rng, lines, at: [*lines[:at], lines[at].replace("isvalid: true", "isvalid: false"), *lines[at + 1 :]],
    "beginning gone": lambda _rng, lines, at: lines[max(at, 3) :],
    "blanks behind lines": lambda _rng, lines, _at: [f"{line.rstrip()}  \n" for line in lines],
}


def collected_file(rng: random.Random, tree: Tree, _partition: str) -> Mutation | None:
    """A file of a collection gone, cut, flipped or exchanged; a field of its manifest changed."""
    paths = [path for path in tree.files if path.partition("/")[2] and not path.endswith("server.log")]
    path = rng.choice(paths)
    if path.endswith("manifest.json") and rng.random() < 0.8:
        return _manifest(rng, tree, path)
    content = tree.files[path]
    if not content:
        return None
    do = rng.choice(("deleted", "cut", "flipped", "emptied", "another's"))
    at = rng.randrange(len(content))
    flipped = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    others = [one for one in paths if one != path and one.rpartition("/")[2] == path.rpartition("/")[2]]
    other = tree.files[rng.choice(others)] if others else b""
    made = {"deleted": None, "cut": content[:at], "flipped": flipped, "emptied": b"", "another's": other}[do]
    name = "batch index" if "/batches/" in path else path.rpartition("/")[2]
    return None if made == content else Mutation(f"collection {name} {do}", None, {path: made}, path, {"path": path})


def _manifest(rng: random.Random, tree: Tree, path: str) -> Mutation | None:
    document = json.loads(tree.files[path])
    replicas = [(log_dir, replica) for log_dir in document["log_dirs"] for replica in log_dir["replicas"]]
    log_dir, replica = rng.choice(replicas) if replicas else (document["log_dirs"][0], {})
    holder, name = rng.choice(
        [(document, key) for key in document] + [(log_dir, key) for key in log_dir] + [(replica, key) for key in replica]
    )
    before = holder[name]
    do = rng.choice(("left out", "null", "changed"))
    if do == "left out":
        del holder[name]
    else:
        holder[name] = None if do == "null" else _changed(rng, before)
    made = json.dumps(document, indent=1).encode()
    if json.loads(made) == json.loads(tree.files[path]):
        return None
    detail = f"{path} {replica.get('directory')}: {str(before)[:80]} -> {str(holder.get(name))[:80]}"
    facts = {"path": path, "field": name, "do": do}
    return Mutation(f"manifest {name} {do}", None, {path: made}, detail, facts)


def _changed(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1, 100))
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    return {}


_LOST = (
    "[2026-11-21 05:44:{second:02d},000] INFO [UnifiedLog partition={partition}, dir=/data/data-0] Truncating to offset {offset} "
    "(org.apache.kafka.storage.internals.log.UnifiedLog)\n",
    "[2026-11-21 05:44:{second:02d},000] WARN [UnifiedLog partition={partition}, dir=/data/data-0] Non-monotonic update of high watermark "
    "from (offset={end}, segment=[0:77]) to (offset={offset}, segment=[0:33]) (org.apache.kafka.storage.internals.log.UnifiedLog)\n",
)


def log_line(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """A broker's log says that it removed committed records of a partition whose logs are whole by now."""
    homes = tree.homes[partition]
    home = rng.choice(homes)
    end = tree.end(home)
    if end < 2 or tree.leader_home(partition) == home:
        return None
    path = f"{home.partition('/')[0]}/server.log"
    values = {"partition": partition, "offset": end - 1 - rng.randrange(min(end - 1, 3)), "end": end, "second": rng.randrange(60)}
    lines = [line.format(**values) for line in _LOST]
    made = tree.files.get(path, b"") + "".join(lines).encode()
    return Mutation("server.log lost below the high watermark", partition, {path: made}, lines[-1].strip())
