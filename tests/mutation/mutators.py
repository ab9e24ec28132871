"""Seeded damage: what disks, copies, editors and people who mean harm do to bytes."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence

import crc32c

Mutator = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
_NUMBER = re.compile(rb"-?\d+")
_EXTREMES = [0, 1, -1, 127, 128, 32767, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**40, 2**62, 2**63 - 2, 2**63 - 1, 2**63, -(2**63), 2**64]
_TEXT_EXTREMES = [str(number).encode() for number in _EXTREMES] + [b"9" * 19, b"9" * 5000, b"1e400", b"NaN", b"", b"0x7f", b"\xd9\xa3"]
_TOKENS = [
    *(b"\0", b"\x1b[2J", b"\a", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\\ud800", b"\r", b"\n", b"\r\n", b"\t"),
    *(b"{", b"}", b"[" * 3000, b"]", b'"', b"null", b"true", b"-", b".", b"=", b":", b",", b"/", b"../", b"\\", b"%s", b"${x}", b" "),
    *(b"*a", b"&a ", b"!!python/object:os.system ", b"- - - - - - - -", b"\x1f\x8b\x08", b"Dumping /x/y-0/00000000000000000000.log\n"),
    b"baseOffset: 0 lastOffset: 0 count: 1 ",
]


def flip(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """Bits flipped."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at = rng.randrange(len(made))
        made[at] ^= 1 << rng.randrange(8)
    return bytes(made)


def cut(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """The end is missing."""
    return content[: rng.randrange(len(content))]


def remove(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """A piece is missing."""
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.choice((1, 2, 4, 8, 61, rng.randrange(1, len(content) + 1))) :]


def insert(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """Something stands in between."""
    at = rng.randrange(len(content) + 1)
    piece = rng.choice(_TOKENS) if rng.random() < 0.6 else rng.randbytes(rng.randrange(1, 40))
    return content[:at] + piece + content[at:]


def repeat(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """A piece, perhaps of whole lines, stands there twice or many times."""
    first, last = sorted((rng.randrange(len(content)), rng.randrange(len(content) + 1)))
    if rng.random() < 0.5:
        first, last = content.rfind(b"\n", 0, first) + 1, content.find(b"\n", last) + 1 or len(content)
    piece = content[first:last][:4096]
    return content[:last] + piece * rng.choice((1, 1, 1, 2, 5)) + content[last:]


def swap(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """Two pieces have changed places."""
    a, b, c, d = sorted(rng.randrange(len(content) + 1) for _ in range(4))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def number(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """An extreme number stands in the place of one, written out or in binary."""
    found = list(_NUMBER.finditer(content)) if rng.random() < 0.7 else []
    if found:
        match = rng.choice(found)
        return content[: match.start()] + rng.choice(_TEXT_EXTREMES) + content[match.end() :]
    form = rng.choice((">h", ">i", ">q", "<i", "<q"))
    size = struct.calcsize(form)
    at = rng.randrange(len(content))
    value = rng.choice(_EXTREMES) & ((1 << 8 * size) - 1)
    return content[:at] + value.to_bytes(size, "big" if form[0] == ">" else "little") + content[at + size :]


def splice(rng: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """The end is that of another file of the same kind."""
    other = rng.choice(others)
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def blank(rng: random.Random, content: bytes, _others: Sequence[bytes]) -> bytes:
    """A piece was never written: zeros."""
    at = rng.randrange(len(content))
    size = rng.choice((1, 8, 64, 512, len(content)))
    return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]


def resealed(rng: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Damage inside the records of a batch of magic 2, whose CRC then matches: the decoders behind the CRC get to see it."""
    batches = list(_batches(content))
    if not batches:
        return flip(rng, content, others)
    begin, end = rng.choice(batches)
    body = rng.choice((flip, number, blank))(rng, content[begin + 21 : end], others)[: end - begin - 21]
    body = body.ljust(end - begin - 21, b"\0")
    return content[: begin + 17] + crc32c.crc32c(body).to_bytes(4, "big") + body + content[end:]


def _batches(content: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    while at + 61 <= len(content) and content[at + 16] == 2:
        end = at + 12 + int.from_bytes(content[at + 8 : at + 12], "big")
        if not at + 61 <= end <= len(content):
            break
        found.append((at, end))
        at = end
    return found


ANY: tuple[Mutator, ...] = (flip, flip, cut, remove, insert, insert, repeat, swap, number, number, splice, blank)
BINARY: tuple[Mutator, ...] = (*ANY, resealed, resealed, resealed)


def mutated(rng: random.Random, content: bytes, others: Sequence[bytes], mutators: Sequence[Mutator]) -> tuple[bytes, int]:
    """The content after one to three mutations, and up to which byte it is what it was."""
    made = content
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if made:
            made = rng.choice(mutators)(rng, made, others)
    return made, common(content, made)


def common(left: bytes, right: bytes) -> int:
    """How many bytes two contents have in common at their beginning."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
