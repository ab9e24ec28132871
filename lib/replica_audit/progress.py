"""What a long piece of work is doing, as events. Lines at a terminal and lines of a file are made of the same ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """What can be done for a while. One at a time is."""

    PREPARING = "preparing"
    LISTING = "listing"
    READING = "reading"
    COMPARING = "comparing"
    WRITING = "writing"
    COLLECTING = "collecting"


class ProgressKind(StrEnum):
    """What an event says."""

    STAGE_BEGUN = "stage-begun"
    COUNTED = "counted"
    SAID = "said"
    STAGE_ENDED = "stage-ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """One event. `seconds` since the work began; `text` is for people, empty where there is nothing to tell them.

    `clusters` are the ids of those that it is about. `done`, `total` and `unit` are of `COUNTED` alone; `numbers` is what else is
    known, by name.
    """

    kind: ProgressKind
    seconds: float
    stage: Stage | None = None
    clusters: tuple[str, ...] = ()
    text: str = ""
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


TellsEvent = Callable[[ProgressEvent], None]


def to_all(*takers: TellsEvent) -> TellsEvent:
    """Where to tell what several are to take."""

    def tell(event: ProgressEvent) -> None:
        for take in takers:
            take(event)

    return tell


class Progress:
    """Makes the events of one piece of work and hands each to `tell`, also if several threads do so."""

    def __init__(self, tell: TellsEvent) -> None:
        """Begin now."""
        self._tell, self._began, self._lock = tell, time.monotonic(), threading.Lock()
        self._stage: Stage | None = None
        self._clusters: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The time since it began."""
        return time.monotonic() - self._began

    def begin(self, stage: Stage, text: str = "", *, clusters: Iterable[str] | None = None, **numbers: int) -> None:
        """Begin a stage, which ends the one before; `clusters` stay until others are given."""
        self.end()
        with self._lock:
            self._stage = stage
            self._clusters = self._clusters if clusters is None else tuple(clusters)
        self._made(ProgressKind.STAGE_BEGUN, text=text, numbers=numbers)

    def count(self, done: int, total: int, unit: str, text: str = "", **numbers: int) -> None:
        """Say how much of the stage is done."""
        self._made(ProgressKind.COUNTED, text=text, done=done, total=total, unit=unit, numbers=numbers)

    def say(self, text: str, **numbers: int) -> None:
        """Say something for people."""
        self._made(ProgressKind.SAID, text=text, numbers=numbers)

    def end(self, text: str = "") -> None:
        """End the stage, if there is one."""
        if self._stage is not None:
            self._made(ProgressKind.STAGE_ENDED, text=text)
            self._stage = None

    def _made(
        self,
        kind: ProgressKind,
        *,
        text: str,
        numbers: Mapping[str, int] | None = None,
        done: int | None = None,
        total: int | None = None,
        unit: str | None = None,
    ) -> None:
        with self._lock:
            self._tell(
                ProgressEvent(
                    kind=kind,
                    seconds=self.seconds,
                    stage=self._stage,
                    clusters=self._clusters,
                    text=text,
                    done=done,
                    total=total,
                    unit=unit,
                    numbers=numbers or {},
                )
            )
