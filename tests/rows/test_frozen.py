"""Values made quickly are those that a frozen dataclass makes by itself."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from replica_audit.frozen import made_quickly


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    first: int
    second: str = "two"
    many: list[int] = field(default_factory=list)
    both: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            self.first = 2  # type: ignore[misc]
        object.__setattr__(self, "both", f"{self.first} {self.second}")


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    first: int
    second: str = "two"
    many: list[int] = field(default_factory=list)
    both: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            self.first = 2  # type: ignore[misc]
        object.__setattr__(self, "both", f"{self.first} {self.second}")


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    first: int
    second: str = "two"


GIVEN: list[dict[str, Any]] = [{"first": 1}, {"first": 1, "second": "x"}, {"second": "y", "many": [3], "first": 5}]


@pytest.mark.parametrize("values", GIVEN)
def test_a_value_has_what_it_would_have(values: dict[str, Any]) -> None:
    made, plain = Quick(**values), Plain(**values)
    assert type(made) is Quick and not hasattr(made, "__dict__")
    assert repr(made) == repr(plain).replace("Plain", "Quick") and made.both == plain.both
    assert dataclasses.asdict(made) == dataclasses.asdict(plain)
    for same in (Quick(**values), dataclasses.replace(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # noqa: S301
        assert same == made and type(same) is Quick and same.both == made.both
    assert made != dataclasses.replace(made, first=7)


def test_each_value_has_its_own_default() -> None:
    assert Quick(first=1).many is not Quick(first=1).many


def test_equal_values_have_one_hash() -> None:
    assert {Hashed(first=1), Hashed(first=1, second="two")} == {Hashed(first=1)} != {Hashed(first=2)}


@pytest.mark.parametrize("made", [Quick(first=1), Hashed(first=1)])
def test_a_value_is_frozen(made: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.first = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.second
    with pytest.raises((AttributeError, TypeError)):
        made.other = 2


@pytest.mark.parametrize("values", [{}, {"second": "x"}, {"first": 1, "third": 3}])
def test_what_the_class_does_not_take_is_refused(values: dict[str, Any]) -> None:
    for kind in (Plain, Quick):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            kind(**values)


def test_only_frozen_classes_with_slots_and_keywords_are_made_so() -> None:
    for frozen, slots, kw_only in ((False, True, True), (True, False, True), (True, True, False)):
        kind = dataclasses.make_dataclass("Kind", [("first", int)], frozen=frozen, slots=slots, kw_only=kw_only)
        with pytest.raises(TypeError, match="Kind is not a frozen dataclass"):
            made_quickly(kind)
