"""Checkpoints, ids, marks and directories, damaged."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

from tests.mutation.broker_view import CHECKPOINTS
from tests.mutation.damage.tree import EPOCHS, EXTREME, META, TOPIC_ID, Mutation, Tree, place_of, scope

_OF_THE_FILE = ("count", "version", "emptied", "garbled", "cut", "lines reversed", "blank lines", "crlf", "zeros", "deleted")
_OF_A_LINE = ("line dropped", "line doubled", "offset changed", "offset changed", "offset extreme", "first number changed", "line added")


def _file_changed(rng: random.Random, content: bytes, do: str) -> bytes | None:
    """What happens to a whole checkpoint."""
    lines = content.decode().splitlines()
    place = rng.randrange(len(content))
    if do in ("emptied", "deleted", "zeros", "cut", "garbled"):
        garbled = content[:place] + rng.choice((b"x", b"\xff", b"-", b" ")) + content[place + 1 :]
        return {"emptied": b"", "deleted": None, "zeros": bytes(len(content)), "cut": content[:place], "garbled": garbled}[do]
    if do == "count":
        lines[1] = str(int(lines[1]) + rng.choice((-1, 1)))
    elif do == "version":
        lines[0] = rng.choice(("1", "-1", "x", ""))
    elif do == "blank lines":
        lines += ["", ""]
    elif do == "lines reversed":
        lines[2:] = lines[:1:-1]
    return "".join(f"{line}\r\n" if do == "crlf" else f"{line}\n" for line in lines).encode()


def _line_changed(rng: random.Random, line: str, do: str) -> list[str]:
    """What a line of a checkpoint becomes."""
    if do == "line doubled":
        return [line, _with_number(line, -1, rng.choice((0, 1, -1)))]
    if do == "offset changed":
        return [_with_number(line, -1, rng.choice((-1, 1, -5, 5, 10, 1000)))]
    if do == "offset extreme":
        return [" ".join([*line.split()[:-1], str(rng.choice((0, -1, EXTREME, 2**63, 10**6)))])]
    return [] if do == "line dropped" else [_with_number(line, -2, rng.choice((-1, 1, 100)))]


def _as_checkpoint(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def _with_number(line: str, place: int, more: int) -> str:
    words = line.split()
    words[place] = str(int(words[place]) + more)
    return " ".join(words)


def epoch_lines(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """The leader-epoch-checkpoint of a replica."""
    whose, homes = scope(rng, tree, partition)
    do, seed = rng.choice((*_OF_THE_FILE, *_OF_A_LINE, *_OF_A_LINE)), rng.randrange(1 << 30)
    changes: dict[str, bytes | None] = {}
    facts: dict[str, Any] = {"whose": whose}
    for home in homes:
        path = f"{home}/{EPOCHS}"
        content = tree.files.get(path)
        if not content:
            continue
        chance = random.Random(seed)  # noqa: S311
        lines = content.decode().splitlines()[2:]
        if do in _OF_THE_FILE:
            changes[path] = _file_changed(chance, content, do)
        elif do == "line added":
            last = lines[-1].split() if lines else ["-1", "0"]
            changes[path] = _as_checkpoint([*lines, f"{int(last[0]) + 1} {int(last[1]) + chance.choice((1, 3, 5000))}"])
        elif lines:
            which, at = place_of(chance, len(lines))
            made = _line_changed(chance, lines[at], do)
            changes[path] = _as_checkpoint([*lines[:at], *made, *lines[at + 1 :]])
            facts |= {"which": which, "line": lines[at], "to": made}
    return Mutation(f"{EPOCHS} {do}", partition, changes, f"of {whose}: {_shown(changes)}", facts) if changes else None


def _shown(changes: dict[str, bytes | None]) -> str:
    return " | ".join(f"{path}={content[:80] if content is not None else None!r}" for path, content in changes.items())[:300]


def offset_lines(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """The line of a partition in a checkpoint of offsets."""
    whose, homes = scope(rng, tree, partition)
    name, seed, do = rng.choice(CHECKPOINTS), rng.randrange(1 << 30), rng.choice(_OF_A_LINE)
    topic, _dash, number = partition.rpartition("-")
    own = f"{topic} {number} "
    changes: dict[str, bytes | None] = {}
    for path in {f"{home.rpartition('/')[0]}/{name}" for home in homes}:
        chance = random.Random(seed)  # noqa: S311
        lines = tree.files.get(path, b"").decode().splitlines()[2:]
        at = next((place for place, line in enumerate(lines) if line.startswith(own)), None)
        if do == "line added" and at is None and path in tree.files:
            changes[path] = _as_checkpoint([*lines, own + str(chance.choice((0, 1, 7, 5000, 10**7)))])
        elif do != "line added" and at is not None:
            changes[path] = _as_checkpoint([*lines[:at], *_line_changed(chance, lines[at], do), *lines[at + 1 :]])
    return _of_offsets(tree, name, do, partition, own, changes, whose) if changes else None


def _of_offsets(tree: Tree, name: str, do: str, partition: str | None, own: str, changes: dict[str, bytes | None], whose: str) -> Mutation:
    def lines(content: bytes | None) -> list[str]:
        return [line for line in (content or b"").decode("latin-1").splitlines()[2:] if line.startswith(own)]

    before = {path: lines(tree.files[path]) for path in changes}
    after = {path: lines(content) for path, content in changes.items()}
    facts = {"whose": whose, "before": before, "after": after}
    return Mutation(f"{name} {do}", partition, changes, f"of {whose}: {before} -> {after}", facts)


def offset_file(rng: random.Random, tree: Tree, _partition: str) -> Mutation | None:
    """A whole checkpoint of offsets of a log directory, or of all."""
    name, do, seed = rng.choice(CHECKPOINTS), rng.choice(_OF_THE_FILE), rng.randrange(1 << 30)
    paths = [path for path, content in tree.files.items() if path.endswith(f"/{name}") and content]
    whose = rng.choice(("one", "one", "all"))
    chosen = paths if whose == "all" else paths and [rng.choice(paths)]
    changes = {path: _file_changed(random.Random(seed), tree.files[path], do) for path in chosen}  # noqa: S311
    return Mutation(f"{name} {do}", None, changes, f"of {whose}: {_shown(changes)}", {"whose": whose}) if changes else None


def topic_id_file(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """The partition.metadata of a replica."""
    whose, homes = scope(rng, tree, partition)
    do = rng.choice(("another id", "zero id", "version", "emptied", "deleted", "garbled", "cut"))
    changes: dict[str, bytes | None] = {}
    for home in homes:
        content = tree.files.get(f"{home}/{TOPIC_ID}")
        if content:
            made = {
                "another id": b"version: 0\ntopic_id: Zp6JWkXMQF-e2A5xW3-mBQ",
                "zero id": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
                "version": content.replace(b"version: 0", b"version: 7"),
                "emptied": b"",
                "garbled": content.replace(b"topic_id", b"topicid"),
                "cut": content[:-3],
            }
            changes[f"{home}/{TOPIC_ID}"] = made.get(do)
    return Mutation(f"{TOPIC_ID} {do}", partition, changes, f"of {whose}", {"whose": whose}) if changes else None


def directory(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """A replica's directory renamed to what brokers call directories that are no replicas, removed, or there twice."""
    whose, homes = scope(rng, tree, partition)
    do = rng.choice(("removed", "-stray", "-delete", "-future", "emptied", "no segments", "twice", "of another topic"))
    changes: dict[str, bytes | None] = {}
    for home in homes:
        for path in [path for path in tree.files if path.startswith(f"{home}/")]:
            rest = path[len(home) :]
            suffix = {
                "-stray": ".0123456789abcdef0123456789abcdef-stray",
                "-delete": ".0123456789abcdef0123456789abcdef-delete",
                "-future": ".0123456789abcdef0123456789abcdef-future",
            }.get(do)
            if suffix:
                changes |= {path: None, f"{home}{suffix}{rest}": tree.files[path]}
            elif do == "removed":
                changes[path] = None
            elif do == "emptied" or (do == "no segments" and path.endswith(".log")):
                changes[path] = None if not path.endswith(TOPIC_ID) or do == "no segments" else tree.files[path]
            elif do == "twice":
                changes[f"{home.rpartition('/')[0]}-copy/{home.rpartition('/')[2]}{rest}"] = tree.files[path]
            elif do == "of another topic":
                changes |= {path: None, f"{home.rpartition('/')[0]}/old-{home.rpartition('/')[2]}{rest}": tree.files[path]}
    return Mutation(f"directory {do}", partition, changes, f"of {whose}", {"whose": whose}) if changes else None


_NUMBER = re.compile(r"(node|broker)\.id=.*")


def broker_file(rng: random.Random, tree: Tree, _partition: str) -> Mutation | None:
    """The meta.properties of a log directory, or the mark of a clean stop."""
    paths = [path for path in tree.files if path.endswith(f"/{META}")]
    if not paths:
        return None
    path = rng.choice(paths)
    others = [one for one in paths if one.partition("/")[0] != path.partition("/")[0]]
    mark = f"{path.rpartition('/')[0]}/.kafka_cleanshutdown"
    do = rng.choice([*_PROPERTIES, "emptied", "deleted", "garbled", "mark"])
    if do == "mark":
        is_there = mark in tree.files
        return Mutation(f"clean shutdown mark {'removed' if is_there else 'added'}", None, {mark: None if is_there else b""}, path)
    content, other = tree.files[path].decode(), tree.files[rng.choice(others or [path])].decode()
    if do in _PROPERTIES:
        made: bytes | None = _PROPERTIES[do](content, other).encode()
    elif do == "garbled":
        at = rng.randrange(len(content))
        made = content.encode()[:at] + bytes([content.encode()[at] ^ 1 << rng.randrange(7)]) + content.encode()[at + 1 :]
    else:
        made = b"" if do == "emptied" else None
    return None if made == tree.files[path] else Mutation(f"{META} {do}", None, {path: made}, f"{path}: {made!r}")


def _line_of(name: str, content: str) -> str:
    return next((line for line in content.splitlines() if re.match(name, line)), "")


_PROPERTIES: dict[str, Callable[[str, str], str]] = {
    "another broker's id": lambda content, other: _NUMBER.sub(_line_of(r"(node|broker)\.id", other), content),
    "unknown id": lambda content, _other: _NUMBER.sub(r"\1.id=88", content),
    "another cluster id": lambda content, _other: re.sub(r"cluster\.id=.*", "cluster.id=AAAAecJCQVWFCFPOsnJhsA", content),
    "directory id of another": lambda content, other: re.sub(r"directory\.id=.*", _line_of("directory", other), content),
    "id left out": lambda content, _other: _NUMBER.sub("", content),
    "cluster id left out": lambda content, _other: re.sub(r"cluster\.id=.*", "", content),
    "version": lambda content, _other: re.sub(r"version=.*", "version=9", content),
    "another's file": lambda _content, other: other,
}


def broker_folder(rng: random.Random, tree: Tree, _partition: str) -> Mutation | None:
    """A broker's folder gone, there twice, or without its replicas."""
    brokers = sorted({path.partition("/")[0] for path in tree.files if "/" in path})
    broker = rng.choice(brokers)
    own = [path for path in tree.files if path.startswith(f"{broker}/")]
    do = rng.choice(("removed", "copied", "without replicas", "without small files", "of another broker"))
    changes: dict[str, bytes | None] = {}
    if do == "removed":
        changes = dict.fromkeys(own)
    elif do == "copied":
        changes = {path.replace(broker, f"{broker}.bak", 1): tree.files[path] for path in own}
    elif do == "without replicas":
        homes = [home for homes in tree.homes.values() for home in homes if home.startswith(f"{broker}/")]
        changes = {path: None for path in own if path.rpartition("/")[0] in homes}
    elif do == "without small files":
        changes = {path: None for path in own if path.rpartition("/")[2] in (*CHECKPOINTS, META)}
    else:
        other = rng.choice(brokers)
        if other == broker:
            return None
        changes = dict.fromkeys(own)
        changes |= {path.replace(other, broker, 1): content for path, content in tree.files.items() if path.startswith(f"{other}/")}
    return Mutation(f"broker folder {do}", None, changes, broker)
