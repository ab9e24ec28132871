"""Settings of an audit: flag, then `REPLICA_AUDIT__KEY` in the environment, then the YAML file, then the default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from replica_audit.errors import ConfigError

_ENVIRONMENT = "REPLICA_AUDIT__"


class Settings(BaseModel):
    """What a run can be told. Unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topics: str = Field(default="", description="regular expression that a topic's whole name must match; empty: all topics")
    protocol: Literal["auto", "high-watermark", "kip-101", "kip-279", "truncate-on-fetch"] = Field(
        default="auto", description="truncation rule; auto derives it from each cluster's versions"
    )
    fail_on: Literal["critical", "error", "warning"] = Field(default="error", description="lowest severity that makes the exit code 1")
    worst: int = Field(default=20, ge=0, le=10_000, description="findings that the summary shows")
    what_if_leaders: bool = Field(default=False, description="also compute every replica as the leader, ranked by what that loses")
    simultaneous_copies: bool = Field(default=False, description="all brokers were copied at one instant (a storage snapshot)")
    server_logs_after_copy: bool = Field(
        default=False, description="the server.log files tell what brokers did after they were copied, not before"
    )
    parallelism: int = Field(default=0, ge=0, le=100_000, description="tasks that segments are spread over; 0: four for each core")

    @field_validator("topics")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


def load(path: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Resolve the settings.

    Args:
        path: of the YAML file; None for none.
        flags: what the command line gave, without what it left alone.
        environment: variables to look in; the process's own by default.

    Raises:
        ConfigError: the file cannot be read or is no mapping, or a key is unknown or has a bad value; the message names it.
    """
    values: dict[str, Any] = {}
    if path is not None:
        values |= _read(path)
    variables = os.environ if environment is None else environment
    values |= {key.removeprefix(_ENVIRONMENT).lower(): value for key, value in variables.items() if key.startswith(_ENVIRONMENT)}
    values |= flags
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explained(error, path)) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: must hold keys and values, such as 'fail_on: error'")
    return {str(key): value for key, value in loaded.items()}


def _explained(error: ValidationError, path: Path | None) -> str:
    known = ", ".join(Settings.model_fields)
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown key '{key}' (known: {known})")
        else:
            lines.append(f"key '{key}': {problem['msg'].removeprefix('Value error, ')}, got {problem['input']!r}")
    return f"{path or 'configuration'}: " + "; ".join(lines)
