"""The files of deploy/ as values, and every way to misspell a key of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from replica_audit import cli
from tests.house.checkout import ROOT

DEPLOY = ROOT / "deploy"
Document = dict[str, Any]
# keys of these are the user's own words: any is right
FREE = frozenset(
    {
        "labels",
        "annotations",
        "matchLabels",
        "data",
        "requests",
        "limits",
        "sparkConf",
        "hadoopConf",
        "nodeSelector",
        "custom_tags",
        "variables",
    }
)


def documents(path: Path) -> list[Document]:
    """The objects of a YAML or JSON file."""
    if path.suffix == ".json":
        return [json.loads(path.read_text(encoding="utf-8"))]
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def of_kind(folder: str, *kinds: str) -> list[Document]:
    """The objects of some kinds in a folder of deploy/."""
    found = [document for path in sorted((DEPLOY / folder).glob("*.yaml")) for document in documents(path) if document["kind"] in kinds]
    assert found
    return found


def keys(value: object, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of all keys that a schema knows."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*place, key)
            if key not in FREE:
                yield from keys(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from keys(inner, (*place, number))


def misspelt(document: Document, place: tuple[str | int, ...]) -> Document:
    """A copy in which the key at a place has a letter more."""
    changed = copy.deepcopy(document)
    inner: Any = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[f"{place[-1]}x"] = inner.pop(place[-1])
    return changed


def containers(document: Document) -> list[Document]:
    """The containers of a CronJob or a Job."""
    job = document["spec"]["jobTemplate"] if document["kind"] == "CronJob" else document
    found: list[Document] = job["spec"]["template"]["spec"]["containers"]
    return found


def pod_of(document: Document) -> Document:
    """The pod of a CronJob or a Job."""
    job = document["spec"]["jobTemplate"] if document["kind"] == "CronJob" else document
    found: Document = job["spec"]["template"]["spec"]
    return found


def parsed(words: list[str]) -> dict[str, Any]:
    """The options that a command of this project would get: `words` begin with its name. A wrong one ends the test."""
    command = next(command for command in cli.COMMANDS if command.name == words[0])
    return vars(cli.parser(command).parse_args(words[1:]))
