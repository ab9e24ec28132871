"""Cheap values: frozen dataclasses of which an audit makes millions, and pure functions that keep their last answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_T = TypeVar("_T")


def made_quickly(kind: type[_T]) -> type[_T]:
    """Decorate a frozen dataclass with slots: the same values, in half the time.

    The `__init__` of a frozen class sets each field by a call of `object.__setattr__`, which takes five times as long as an assignment.
    Here a value belongs to an open class while it is made, where assignments are allowed, and is frozen by its class when it is whole.

    Raises:
        TypeError: not every field is one of a keyword that `__init__` takes.
    """
    made: Any = kind
    fields = [field for field in dataclasses.fields(made) if field.init]
    if not all(field.kw_only for field in fields) or not made.__dataclass_params__.frozen or "__dict__" in dir(made):
        raise TypeError(f"{made.__name__} is not a frozen dataclass with slots and keywords only")
    opened = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__, "__module__": made.__module__}
    known: dict[str, Any] = {"_frozen": kind, "_open": type(made.__name__, (made,), opened), "_become": _BECOME}
    parameters, lines = [], []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not dataclasses.MISSING:
            known |= {f"_make_{name}": field.default_factory, "_missing": dataclasses.MISSING}
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f"    self.{name} = {value}\n")
    last = "    self.__post_init__()\n" if hasattr(made, "__post_init__") else ""
    source = (
        f"def __init__(self, *, {', '.join(parameters)}):\n    _become(self, _open)\n{''.join(lines)}    self.__class__ = _frozen\n{last}"
    )
    exec(source, known)  # noqa: S102 - made of the names of a class of the project, as dataclasses does
    made.__init__ = known["__init__"]
    return kind


_BECOME = object.__dict__["__class__"].__set__


# Asking a pure function once: the replicas of a partition are nearly always the same, and so are the questions about them.

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")
_KEPT = 8  # questions: of a partition, and of the one before


def once(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """The function, which keeps its answers to the last few questions.

    Its arguments are compared, not hashed: parts that are the same objects cost nothing, others mostly differ at their beginning. Neither
    arguments nor answers may be changed by anyone.
    """
    kept: list[tuple[tuple[Any, dict[str, Any]], Answer]] = []

    @wraps(function)
    def asked(*args: Asked.args, **named: Asked.kwargs) -> Answer:
        question = (args, named)
        for known, answer in kept:
            if known == question:
                return answer
        found = function(*args, **named)
        kept[:] = [(question, found), *kept[: _KEPT - 1]]
        return found

    return asked
