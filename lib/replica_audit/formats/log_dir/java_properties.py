"""Java properties as java.util.Properties.load reads them, but in UTF-8: the form of all of Kafka's configuration files.

Values are trimmed, as ConfigDef.parseType does. No error names a value: it may be a password.
"""

from __future__ import annotations

import re

from replica_audit.errors import MetadataError

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


def properties(content: bytes) -> dict[str, tuple[int, str]]:
    """Keys to (line, value); of a key that is given twice the last counts.

    Raises:
        MetadataError: not text, or a value is none once its escapes are read.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetadataError("not text: binary content", byte_offset=error.start) from None
    found: dict[str, tuple[int, str]] = {}
    parts: list[str] = []
    began = 0
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        stripped = line.lstrip(_BLANKS)
        if not began and (not stripped or stripped[0] in "#!"):
            continue
        began = began or number
        if (len(stripped) - len(stripped.rstrip("\\"))) % 2:  # the line goes on in the next
            parts.append(stripped[:-1])
            continue
        _put(found, began, "".join((*parts, stripped)))
        parts, began = [], 0
    if any(parts):
        _put(found, began, "".join(parts))
    return found


def _put(found: dict[str, tuple[int, str]], number: int, line: str) -> None:
    match = _KEY.match(line)
    if match:
        found[_unescaped(match[1], number)] = (number, _unescaped(line[match.end() :], number).strip())


def _unescaped(text: str, number: int) -> str:
    def meant(match: re.Match[str]) -> str:
        if match[1] == "u":  # IllegalArgumentException: no broker starts with it
            raise MetadataError("an escape \\u without four digits", line=number)
        return chr(int(match[1][1:], 16)) if len(match[1]) == 5 else _ESCAPES.get(match[1], match[1])

    plain = _ESCAPED.sub(meant, text)
    try:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")  # Java escapes a character beyond U+FFFF as two
    except UnicodeDecodeError:
        raise MetadataError("an escape sequence for half of a character", line=number) from None
