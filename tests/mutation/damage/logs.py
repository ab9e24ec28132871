"""Segments and batches, damaged."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import crc32c

from tests.mutation.broker_view import Framed, framed, old_entries, partition_of
from tests.mutation.damage.tree import EXTREME, Mutation, Tree, place_of, scope

Changes = dict[str, bytes | None]
_HEADS = (12, 17, 61, 512, 4096)


def segment_file(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """A whole segment emptied, zeroed, cut, deleted, swapped, renamed, replaced."""
    whose, homes = scope(rng, tree, partition)
    names = tree.segments(homes[0])
    if not names:
        return None
    which, number = place_of(rng, len(names))
    name = names[number].rpartition("/")[2]
    do, seed = rng.choice([*_CONTENTS, *_FILES]), rng.randrange(1 << 30)
    changes: Changes = {}
    for home in homes:
        path, chance = f"{home}/{name}", random.Random(seed)  # noqa: S311
        if path in tree.files:
            changes |= {path: _CONTENTS[do](chance, tree.files[path])} if do in _CONTENTS else _FILES[do](chance, tree, home, path)
    facts = {"whose": whose, "which": which}
    return Mutation(f"segment {do}", partition, changes, f"{which} segment {name} of {whose}", facts) if changes else None


def _cut(rng: random.Random, content: bytes, *, between: bool) -> bytes:
    found = list(framed(content))
    if not found:
        return content[: len(content) // 2]
    one = rng.choice(found)
    return content[: one.at if between else one.at + rng.randrange(1, one.end - one.at)]


def _head(rng: random.Random, content: bytes, *, zeros: bool) -> bytes:
    size = min(rng.choice(_HEADS), len(content))
    return (bytes(size) if zeros else rng.randbytes(size)) + content[size:]


_CONTENTS: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "emptied": lambda _rng, _content: b"",
    "zeroed": lambda _rng, content: bytes(len(content)),
    "zeroed head": lambda rng, content: _head(rng, content, zeros=True),
    "garbage": lambda rng, content: rng.randbytes(len(content)),
    "garbage head": lambda rng, content: _head(rng, content, zeros=False),
    "garbage behind": lambda rng, content: content + rng.randbytes(rng.choice((5, 100, 1000))),
    "zeros behind": lambda rng, content: content + bytes(rng.choice((5, 100, 5000))),
    "cut in a batch": lambda rng, content: _cut(rng, content, between=False),
    "cut between batches": lambda rng, content: _cut(rng, content, between=True),
    "second half lost": lambda _rng, content: content[: len(content) // 2].ljust(len(content), b"\0"),
}


def _renamed(rng: random.Random, tree: Tree, home: str, path: str) -> Changes:
    base = int(path[-24:-4]) + rng.choice((-1, 1, 2, 1000))
    return {path: None, f"{home}/{base:020d}.log": tree.files[path]} if base >= 0 else {}


def _swapped(rng: random.Random, tree: Tree, home: str, path: str) -> Changes:
    others = [one for one in tree.segments(home) if one != path]
    other = rng.choice(others) if others else path
    return {path: tree.files[other], other: tree.files[path]} if others else {}


def _from_elsewhere(rng: random.Random, tree: Tree, home: str, path: str) -> Changes:
    own = partition_of(home)
    homes = [one for partition, found in tree.homes.items() if partition not in (own, "__cluster_metadata-0") for one in found]
    names = [name for one in homes for name in tree.segments(one) if tree.files[name]]
    return {path: tree.files[rng.choice(names)]} if names else {}


_FILES: dict[str, Callable[[random.Random, Tree, str, str], Changes]] = {
    "deleted": lambda _rng, _tree, _home, path: {path: None},
    "marked deleted": lambda _rng, tree, _home, path: {path: None, f"{path}.deleted": tree.files[path]},
    "renamed": _renamed,
    "swapped": _swapped,
    "another's": _from_elsewhere,
}


def batch_field(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """One field of one batch's header; fields that the CRC covers with or without the CRC made to match."""
    whose, homes = scope(rng, tree, partition)
    chosen = _some_batch(rng, tree, homes[0])
    if chosen is None:
        return None
    name, number, which = chosen
    do, seed, is_sealed = rng.choice(list(_HOW)), rng.randrange(1 << 30), rng.random() < 0.5
    sealed = " resealed" if is_sealed and do not in ("base offset", "length", "epoch", "magic", "crc") else ""
    changes: dict[str, bytes | None] = {}
    told = ""
    for home in homes:
        path = f"{home}/{name}"
        batches = list(framed(tree.files.get(path, b"")))
        if number < len(batches):
            made, told = _field_changed(random.Random(seed), tree.files[path], batches[number], do, is_sealed=bool(sealed))  # noqa: S311
            changes[path] = made
    return Mutation(
        f"batch {do}{sealed}",
        partition,
        changes,
        f"batch {number} ({which}) of {name} of {whose}: {told}",
        {"whose": whose, "which": which, "told": told},
    )


def _some_batch(rng: random.Random, tree: Tree, home: str) -> tuple[str, int, str] | None:
    names = [path for path in tree.segments(home) if list(framed(tree.files[path]))]
    if not names:
        return None
    which, number = place_of(rng, len(names))
    count = len(list(framed(tree.files[names[number]])))
    of_segment, place = place_of(rng, count)
    return names[number].rpartition("/")[2], place, f"{of_segment} of {which} segment"


def _field_changed(rng: random.Random, content: bytes, one: Framed, do: str, *, is_sealed: bool) -> tuple[bytes, str]:
    made = bytearray(content[one.at : one.end])
    form, at, changed = _HOW[do](rng)
    before = struct.unpack_from(form, made, at)[0]
    size = struct.calcsize(form)
    made[at : at + size] = (changed(before) & ((1 << 8 * size) - 1)).to_bytes(size, "big")
    if is_sealed:
        made[17:21] = crc32c.crc32c(bytes(made[21:])).to_bytes(4, "big")
    return content[: one.at] + bytes(made) + content[one.end :], f"{before} -> {struct.unpack_from(form, made, at)[0]}"


def _near(rng: random.Random) -> Callable[[int], int]:
    more = rng.choice((-1, 1, 5, -5, 1000))
    return lambda value: value + more


def _near_or_far(rng: random.Random) -> Callable[[int], int]:
    far = rng.choice((0, -1, EXTREME, 2**31 - 1))
    return _near(rng) if rng.random() < 0.7 else lambda _value: far


def _bit(rng: random.Random, bits: int) -> Callable[[int], int]:
    flipped = 1 << rng.randrange(bits)
    return lambda value: value ^ flipped


def _one_of(rng: random.Random, *values: int) -> Callable[[int], int]:
    chosen = rng.choice(values)
    return lambda _value: chosen


How = tuple[str, int, Callable[[int], int]]
_HOW: dict[str, Callable[[random.Random], How]] = {  # how the field is packed, where in the header, and what it becomes
    "base offset": lambda rng: (">q", 0, _near_or_far(rng)),
    "length": lambda rng: (">i", 8, _near_or_far(rng)),
    "epoch": lambda rng: (">i", 12, _near_or_far(rng)),
    "magic": lambda rng: (">b", 16, _one_of(rng, 0, 1, 3, 127, -1)),
    "crc": lambda rng: (">I", 17, _bit(rng, 32)),
    "attributes": lambda rng: (">h", 21, _bit(rng, 7)),
    "last offset delta": lambda rng: (">i", 23, _near(rng)),
    "timestamp": lambda rng: (">q", rng.choice((27, 35)), _near(rng)),
    "producer": lambda rng: (*rng.choice(((">q", 43), (">h", 51), (">i", 53))), _near(rng)),
    "record count": lambda rng: (">i", 57, _near(rng)),
}


def batches(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """Whole batches dropped, doubled, swapped, zeroed; a payload changed, with or without the CRC; garbage between; more behind the end."""
    whose, homes = scope(rng, tree, partition)
    chosen = _some_batch(rng, tree, homes[0])
    if chosen is None:
        return None
    name, number, which = chosen
    do = rng.choice(list(_BATCHES))
    seed = rng.randrange(1 << 30)
    changes: dict[str, bytes | None] = {}
    for home in homes:
        path = f"{home}/{name}"
        found = list(framed(tree.files.get(path, b"")))
        if number < len(found):
            changes[path] = _batches_changed(random.Random(seed), tree.files[path], found, number, do)  # noqa: S311
    if all(tree.files[path] == content for path, content in changes.items()):
        return None
    return Mutation(f"batch {do}", partition, changes, f"batch {number} ({which}) of {name} of {whose}", {"whose": whose, "which": which})


def _batches_changed(rng: random.Random, content: bytes, found: list[Framed], number: int, do: str) -> bytes:
    one = found[number]
    return _BATCHES[do](rng, content, one, found[number + 1 :])


def _in_its_place(content: bytes, one: Framed, made: bytes) -> bytes:
    return content[: one.at] + made + content[one.end :]


def _payload(rng: random.Random, content: bytes, one: Framed, *, is_sealed: bool) -> bytes:
    made = bytearray(content[one.at : one.end])
    if len(made) > 61:
        made[rng.randrange(61, len(made))] ^= 1 << rng.randrange(8)
    if is_sealed:
        made[17:21] = crc32c.crc32c(bytes(made[21:])).to_bytes(4, "big")
    return _in_its_place(content, one, bytes(made))


def _exchanged(content: bytes, one: Framed, behind: list[Framed]) -> bytes:
    if not behind:
        return content
    other = behind[0]
    return content[: one.at] + content[other.at : other.end] + content[one.at : one.end] + content[other.end :]


def _appended(content: bytes, one: Framed, behind: list[Framed], more: int, epochs: int) -> bytes:
    """The batch once more, behind the last one, so many offsets and epochs later."""
    last = behind[-1] if behind else one
    made = bytearray(content[one.at : one.end])
    struct.pack_into(">q", made, 0, last.last + more)
    struct.pack_into(">i", made, 12, last.epoch + epochs)
    return content + bytes(made)


def _again(content: bytes, one: Framed) -> bytes:
    return content[one.at : one.end]


_BATCHES: dict[str, Callable[[random.Random, bytes, Framed, list[Framed]], bytes]] = {
    "dropped": lambda _rng, content, one, _behind: _in_its_place(content, one, b""),
    "doubled": lambda _rng, content, one, _behind: _in_its_place(content, one, _again(content, one) * 2),
    "swapped": lambda _rng, content, one, behind: _exchanged(content, one, behind),
    "zeroed": lambda _rng, content, one, _behind: _in_its_place(content, one, bytes(one.end - one.at)),
    "payload flipped": lambda rng, content, one, _behind: _payload(rng, content, one, is_sealed=False),
    "payload resealed": lambda rng, content, one, _behind: _payload(rng, content, one, is_sealed=True),
    "garbage before": lambda rng, content, one, _b: _in_its_place(
        content, one, rng.randbytes(rng.choice((1, 7, 200))) + _again(content, one)
    ),
    "written again later": lambda _rng, content, one, behind: _appended(content, one, behind, 1, 0),
    "behind the end": lambda rng, content, one, behind: _appended(content, one, behind, rng.choice((2, 50)), rng.choice((0, 1, 7))),
    "moved to the end": lambda _rng, content, one, _behind: _in_its_place(content, one, b"") + _again(content, one),
}


def old_message(rng: random.Random, tree: Tree, partition: str) -> Mutation | None:
    """Entries of the formats before magic 2."""
    whose, homes = scope(rng, tree, partition)
    names = [path for path in tree.segments(homes[0]) if list(old_entries(tree.files[path]))]
    if not names:
        return None
    name = rng.choice(names).rpartition("/")[2]
    do, seed = rng.choice(("dropped", "doubled", "offset", "magic", "payload flipped", "length")), rng.randrange(1 << 30)
    changes: dict[str, bytes | None] = {}
    for home in homes:
        content = tree.files.get(f"{home}/{name}", b"")
        found = list(old_entries(content))
        if found:
            chance = random.Random(seed)  # noqa: S311
            at, end, base = chance.choice(found)
            one = bytearray(content[at:end])
            if do == "offset":
                struct.pack_into(">q", one, 0, base + chance.choice((-1, 1, 1000)))
            elif do == "magic":
                one[16] ^= 1
            elif do == "payload flipped":
                one[-1 - chance.randrange(min(10, len(one) - 17))] ^= 4
            elif do == "length":
                struct.pack_into(">i", one, 8, len(one) - 12 + chance.choice((-1, 1, 1000)))
            made = {"dropped": b"", "doubled": bytes(one) * 2}.get(do, bytes(one))
            changes[f"{home}/{name}"] = content[:at] + made + content[end:]
    return Mutation(f"old message {do}", partition, changes, f"{name} of {whose}", {"whose": whose})
