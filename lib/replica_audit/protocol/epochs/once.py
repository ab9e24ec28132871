"""Asking a pure function once: the replicas of a partition are nearly always the same, and so are the questions about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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
