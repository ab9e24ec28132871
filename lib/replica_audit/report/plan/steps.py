"""What a plan is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Safety(IntEnum):
    """The order of steps: first what cannot lose anything, last what ends something for good."""

    SAVE = 1
    CHECKPOINT = 2
    ELECT = 3
    START = 4
    ABORT = 5
    REBUILD = 6
    GROUPS = 7
    PREFERRED = 8


class GroupPolicy(StrEnum):
    """What becomes of a group behind a truncation: it reads again what it may have read in another version, or skips that."""

    RE_READ = "re-read"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A file of the plan. `name` is relative to its folder, with `/` between folders; no name of a topic or group is in it unencoded."""

    name: str
    content: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step: why, what to type, how to see that it worked, how to undo it. Texts are sentences; `commands` are lines of a shell."""

    safety: Safety
    title: str
    reasons: tuple[str, ...]
    commands: tuple[str, ...]
    check: tuple[str, ...]
    undo: str
    files: tuple[PlanFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefusal:
    """What the plan does not do, where, and why. `where` are names as they are shown, with what is put before them in `what`."""

    what: str
    where: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Presumption:
    """What the plan rests on. `holds` says whether the run confirms it: None where it cannot tell; `how_to_check` is for a person."""

    what: str
    holds: bool | None
    how_to_check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """What one kind of finding asks for."""

    steps: tuple[PlanStep, ...] = ()
    refusals: tuple[PlanRefusal, ...] = ()
    presumptions: tuple[Presumption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All steps of one cluster in order of safety. `truncations`: lines of Markdown, who truncates what under which leader."""

    run_id: str
    cluster_id: str
    decisions: tuple[str, ...]
    steps: tuple[PlanStep, ...]
    refusals: tuple[PlanRefusal, ...]
    presumptions: tuple[Presumption, ...]
    truncations: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[PlanFile, ...]:
        """Every file of every step."""
        return tuple(file for step in self.steps for file in step.files)
