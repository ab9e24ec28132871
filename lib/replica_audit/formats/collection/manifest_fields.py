"""The fields of a JSON document that may hold anything, each read as what it has to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from replica_audit.errors import MetadataError

INT32, INT64 = 2**31, 2**63


class Fields:
    """One object of the document; `where` names it in errors, with its number if there are several."""

    __slots__ = ("_number", "_where", "values")

    def __init__(self, values: Mapping[str, Any], where: str, number: int | None = None) -> None:
        self.values = values
        self._where, self._number = where, number

    def _refuse(self, name: str, what: str) -> MetadataError:
        return MetadataError(f"{name} of {self._named()} is not {what}")

    def _named(self) -> str:
        """Only in errors: there may be a hundred thousand objects."""
        return self._where if self._number is None else f"{self._where} {self._number}"

    def integer(self, name: str, bound: int = INT64) -> int:
        """A number in [0, bound)."""
        value = self.values.get(name)
        if type(value) is not int or not 0 <= value < bound:  # not `isinstance`, which takes true and false
            raise self._refuse(name, "a number that it can be")
        return value

    def text(self, name: str) -> str:
        """A string that can be written to a table."""
        value = self.values.get(name)
        if not isinstance(value, str) or not _is_text(value):
            raise self._refuse(name, "a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None."""
        return None if self.values.get(name) is None else self.text(name)

    def file_name(self, name: str) -> str:
        """The name of something right in a folder, not a path out of it."""
        value = self.text(name)
        if not _is_file_name(value):
            raise self._refuse(name, "the name of a folder")
        return value

    def file_names(self, name: str) -> tuple[str, ...]:
        """Names of files right in a folder."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) and _is_often_named(item) for item in value):
            raise self._refuse(name, "a list of file names")
        return tuple(value)

    def time(self, name: str) -> int:
        """A time, in milliseconds."""
        try:
            return round(datetime.fromisoformat(self.text(name)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise self._refuse(name, "a time") from None

    def objects(self, name: str, wanted: Callable[[Mapping[str, Any]], bool] | None = None) -> list[Fields]:
        """Objects, all or those that are wanted."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._refuse(name, "a list of objects")
        where = f"{self._named()}: {name}"
        return [Fields(item, where, number) for number, item in enumerate(value, start=1) if wanted is None or wanted(item)]

    def mapping(self, name: str) -> dict[str, Any]:
        """An object as it stands; empty if it is missing."""
        value = self.values.get(name) or {}
        if not isinstance(value, dict):
            raise self._refuse(name, "an object")
        return value


def _is_file_name(text: str) -> bool:
    return "/" not in text and "\0" not in text and text not in ("", ".", "..") and _is_text(text)


_is_often_named = lru_cache(maxsize=1 << 10)(_is_file_name)  # the same few names in every replica directory


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
