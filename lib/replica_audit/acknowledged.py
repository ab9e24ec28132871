"""The file of acknowledgements: which findings somebody knows of, why, who, and until when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from replica_audit.config import read_text
from replica_audit.errors import ConfigError
from replica_audit.protocol.verdict.acknowledgement import Acknowledgement, Acknowledgements, MissingCode
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.rows.codes import Severity

__all__ = ["Acknowledgements", "Entry", "load"]

_EXAMPLE = "such as '- {topic: orders, verdict: stale_tail, reason: ..., who: ana, until: 2026-12-01}'"
_SHOWN = 120
_MOST = 10_000


def _listed(value: object) -> object:
    """A single number stands for a list of one."""
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


Numbers = Annotated[
    tuple[Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)], ...] | None, BeforeValidator(_listed), Field(min_length=1)
]


class Entry(BaseModel):
    """One acknowledgement as it is written. Unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str = Field(min_length=1, description="why nothing has to be done about it now")
    who: str = Field(min_length=1, description="who says so")
    until: date = Field(description="last day on which it holds, YYYY-MM-DD")
    cluster: str | None = Field(default=None, description="regular expression that the whole cluster id must match")
    topic: str | None = Field(default=None, description="regular expression that the topic's whole name must match")
    partition: Numbers = Field(default=None, description="number of a partition, or a list")
    replica: Numbers = Field(default=None, description="id of the broker that holds the replica, or a list")
    verdict: str | None = Field(default=None, description="regular expression that the finding's whole code must match")
    severity: Severity = Field(default=Severity.ERROR, description="worst severity that it covers")
    at_most_records: int = Field(default=0, ge=0, le=2**63 - 1, strict=True, description="most records that a finding may lose")

    @field_validator("cluster", "topic", "verdict")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("verdict")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        codes = [str(code) for code in (*Verdict, *PartitionCode, *MissingCode)]
        if value is not None and not any(re.fullmatch(value, code) for code in codes):
            raise ValueError(f"no verdict or code of a finding matches; known: {', '.join(codes)}")
        return value

    @field_validator("severity")
    @classmethod
    def _is_of_findings(cls, value: Severity) -> Severity:
        if value is Severity.NONE:
            raise ValueError("clean verdicts need no acknowledgement; give critical, error or warning")
        return value

    @model_validator(mode="after")
    def _is_about_something(self) -> Entry:
        if all(value is None for value in (self.cluster, self.topic, self.partition, self.replica, self.verdict)):
            raise ValueError("it is about every finding; give at least one of cluster, topic, partition, replica, verdict")
        return self


def load(path: Path | None, on: date) -> Acknowledgements:
    """The acknowledgements of a file as of a day; None: there are none.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; the message names the line and what to write.
    """
    if path is None:
        return Acknowledgements(on=on)
    text = read_text(path)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())[:_SHOWN]}") from None
    if node is None:
        return Acknowledgements(on=on)
    if not isinstance(node, yaml.SequenceNode):
        raise ConfigError(f"{path}: line {_line(node)}: must be a list of acknowledgements, {_EXAMPLE}")
    if len(node.value) > _MOST:
        raise ConfigError(f"{path}: {len(node.value)} acknowledgements; {_MOST} at most: let a regular expression cover several")
    return Acknowledgements(entries=tuple(_entries(path, node)), on=on)


def _entries(path: Path, node: yaml.SequenceNode) -> Iterator[Acknowledgement]:
    for item in node.value:
        if not isinstance(item, yaml.MappingNode):
            raise ConfigError(f"{path}: line {_line(item)}: must hold keys and values, {_EXAMPLE}")
        values, lines = _values(path, item)
        try:
            entry = Entry.model_validate(values)
        except ValidationError as error:
            raise ConfigError("; ".join(_explained(path, error, lines, _line(item)))) from None
        same = entry.model_dump(exclude={"partition", "replica"})
        yield Acknowledgement(line=_line(item), partitions=entry.partition, replicas=entry.replica, **same)


def _values(path: Path, item: yaml.MappingNode) -> tuple[dict[str, Any], dict[str, int]]:
    """The values of an entry, and the line of each key."""
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in item.value:
        key = str(getattr(key_node, "value", ""))
        if key in values:
            raise ConfigError(f"{path}: line {_line(key_node)}: key '{key}' is given twice; remove one")
        lines[key] = _line(key_node)
        try:
            values[key] = yaml.SafeLoader("").construct_document(value_node)
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # a date or a number that is none
            raise ConfigError(f"{path}: line {lines[key]}: key '{key}': {' '.join(str(error).split())[:_SHOWN]}") from None
    return values, lines


def _explained(path: Path, error: ValidationError, lines: dict[str, int], first: int) -> Iterator[str]:
    for problem in error.errors():
        key = str(problem["loc"][0]) if problem["loc"] else ""
        where = f"{path}: line {lines.get(key, first)}"
        if problem["type"] == "extra_forbidden":
            yield f"{where}: unknown key '{key}' (known: {', '.join(Entry.model_fields)})"
        elif problem["type"] == "missing":
            yield f"{where}: key '{key}' is missing: {Entry.model_fields[key].description}"
        elif not key:
            yield f"{where}: {problem['msg'].removeprefix('Value error, ')}"
        else:
            about = Entry.model_fields[key].description
            got = repr(problem["input"])[:_SHOWN]
            yield f"{where}: key '{key}' ({about}): {problem['msg'].removeprefix('Value error, ')}, got {got}"


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1
