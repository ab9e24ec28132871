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
_FORMER = {"full_every_days": "every audit is full"}  # settings that an earlier version had, and why they do nothing
_KEPT_OUT = "webhook_url"  # a secret of the environment or a file of its own: settings are shown, and stored with the run
_DEPTH = 4  # of collections in each other, one more than anything that could be meant
_SHOWN = 200
_LARGEST = 1 << 20


class Settings(BaseModel):
    """What a run can be told. Unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topics: str = Field(default="", description="regular expression that a topic's whole name must match; empty: all topics")
    protocol: Literal["auto", "high-watermark", "kip-101", "kip-279", "truncate-on-fetch"] = Field(
        default="auto", description="truncation rule; auto derives it from each cluster's versions"
    )
    compare: Literal["epochs", "content", "records"] = Field(
        default="content",
        description="epochs: checkpoints and batch headers only; content: also the bytes of batches, by their CRCs; records: also the "
        "records of compacted topics, key by key, and every record where the content of others differs",
    )
    show_keys: bool = Field(
        default=False, description="with compare: records, write keys that differ as text beside their hashes; they may be personal data"
    )
    fail_on: Literal["critical", "error", "warning"] = Field(default="error", description="lowest severity that makes the exit code 1")
    worst: int = Field(default=20, ge=0, le=10_000, description="findings that the summary shows")
    what_if_leaders: bool = Field(default=False, description="also compute every replica as the leader, ranked by what that loses")
    what_if_at_stake: bool = Field(
        default=False, description="the same where a follower truncates what its leader lacks, for a plan to say what that would cost"
    )
    detail: Literal["findings", "all"] = Field(
        default="findings",
        description="of partitions that are proven healthy, findings stores verdicts and logs; all also stores, epoch by epoch and rule by "
        "rule, that nothing is cut",
    )
    follow_links: bool = Field(
        default=False,
        description="follow links that lead out of the inputs: whoever could make them chooses which files of this machine are read",
    )
    simultaneous_copies: bool = Field(default=False, description="all brokers were copied at one instant (a storage snapshot)")
    server_logs_after_copy: bool = Field(
        default=False, description="the server.log files show what brokers did after they were copied, not before"
    )
    webhook_on: Literal["findings", "failure", "problems", "always"] = Field(
        default="findings", description="which audits are posted to the webhook: exit code 1; 2, 70 and more; any but 0; all"
    )
    webhook_url_file: str = Field(default="", description="file that holds the webhook's address, unless REPLICA_AUDIT__WEBHOOK_URL does")
    webhook_timeout_s: int = Field(default=10, ge=1, le=300, description="seconds that the webhook has for each of three tries")
    page_url: str = Field(default="", description="where the page of --html can be read, for the webhook to name")
    parallelism: int = Field(default=0, ge=0, le=100_000, description="tasks that segments are spread over; 0: four for each core")

    @field_validator("topics")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            value.encode("utf-8")  # half of a character, by an escape
            re.compile(value)
        except (re.error, UnicodeEncodeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


def load(path: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Resolve the settings.

    Args:
        path: of the YAML file; None for none.
        flags: what the command line gave, without what it left alone.
        environment: variables to look in; the process's own by default.

    Raises:
        ConfigError: the file cannot be read or is not a mapping, or a key is unknown or has a bad value; the message names it.
    """
    values = _given(path, environment) | dict(flags)
    try:
        return Settings.model_validate({key: value for key, value in values.items() if key not in _FORMER})
    except ValidationError as error:
        raise ConfigError(_explained(error, path)) from None


def former_settings(path: Path | None, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each setting that an earlier version had and that does nothing any more. The rest as of `load`."""
    given = _given(path, environment)
    return [f"{key} does nothing any more: {why}; take it out of the settings" for key, why in _FORMER.items() if key in given]


def _given(path: Path | None, environment: Mapping[str, str] | None) -> dict[str, Any]:
    """The values of the file, then of the environment."""
    variables = os.environ if environment is None else environment
    given = {key.removeprefix(_ENVIRONMENT).lower(): value for key, value in variables.items() if key.startswith(_ENVIRONMENT)}
    return ({} if path is None else _read(path)) | {key: value for key, value in given.items() if key != _KEPT_OUT}


def read_text(path: Path) -> str:
    """The text of a YAML file that holds no more than settings need.

    Raises:
        ConfigError: it cannot be read, is not YAML, or is larger or nested deeper than any that could be meant.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError(f"{path}: larger than {_LARGEST >> 20} MiB, which no file of settings is")
        text = content.decode("utf-8")
        _refuse_bombs(path, text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())[:_SHOWN]}") from None
    return text


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    if not text:  # nobody wants all defaults by a file without even a comment
        raise ConfigError(f"{path}: is empty, as a power cut leaves it; write it again, or the line '# defaults' if it holds no setting")
    try:
        loaded = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a date or a number that is none, a text that is not UTF-8
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())[:_SHOWN]}") from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: must hold keys and values, such as 'fail_on: error'")
    return {str(key): value for key, value in loaded.items()}


def _refuse_bombs(path: Path, text: str) -> None:
    """Refuse what a file of a few settings has no use for, and what a short text can fill memory with: aliases, and nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{path}: line {_line(event)}: an alias (*{event.anchor}); write the value itself")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH:
            raise ConfigError(f"{path}: line {_line(event)}: nested too deep; settings are keys with values")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _shown(value: object) -> str:
    """A value for an error message, as far as one reads."""
    if isinstance(value, int) and value.bit_length() > _SHOWN:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _explained(error: ValidationError, path: Path | None) -> str:
    known = ", ".join(Settings.model_fields)
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if key == _KEPT_OUT:
            lines.append(f"key '{key}': a secret; set {_ENVIRONMENT}{_KEPT_OUT.upper()}, or name a file that holds it: webhook_url_file")
        elif problem["type"] == "extra_forbidden":
            lines.append(f"unknown key '{key}' (known: {known})")
        else:
            lines.append(f"key '{key}': {problem['msg'].removeprefix('Value error, ')}, got {_shown(problem['input'])}")
    return f"{path or 'configuration'}: " + "; ".join(lines)
