"""Rows kept as columns: an audit makes millions of rows of epochs that go into tables, and nobody looks at one of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast, overload

R = TypeVar("R")


class RowBlock(Sequence[R], Generic[R]):
    """Rows of one class by column; each is made when it is asked for. Equal to any list of the same rows."""

    __slots__ = ("columns", "kind")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: type[R]) -> None:
        """Begin with none."""
        self.kind = kind
        self.columns: dict[str, list[Any]] = {one.name: [] for one in dataclasses.fields(cast(Any, kind))}

    def add(self, count: int, same: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> None:
        """Add rows that have one value in some columns, and one each in all others."""
        for name, values in self.columns.items():
            values.extend(columns[name] if name in columns else repeat(same[name], count))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterator[R]:
        """Make each row."""
        make = cast(Any, self.kind)
        for values in zip(*self.columns.values(), strict=True):
            yield make(**dict(zip(self.columns, values, strict=True)))

    @overload
    def __getitem__(self, place: int) -> R: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[R]: ...

    def __getitem__(self, place: int | slice) -> R | Sequence[R]:
        """Make a row, or some."""
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        return cast(R, cast(Any, self.kind)(**{name: values[place] for name, values in self.columns.items()}))

    def __eq__(self, other: object) -> bool:
        """Compare the rows."""
        if isinstance(other, RowBlock):
            return self.kind is other.kind and self.columns == other.columns
        return isinstance(other, list | tuple) and list(self) == list(other)


def column_of(name: str, parts: Iterable[Sequence[Any] | None]) -> list[Any]:
    """Return the values of a column of all rows of several lists."""
    value, found = attrgetter(name), list[Any]()
    for part in parts:
        found.extend(part.columns[name] if isinstance(part, RowBlock) else map(value, part or ()))
    return found
