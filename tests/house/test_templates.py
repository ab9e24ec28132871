"""The forms for issues hold to GitHub's schema, and ask for what is needed to explain a number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.checkout import ROOT

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
# of each type of element: the attributes that GitHub knows, and those that it demands
ATTRIBUTES = {
    "markdown": ({"value"}, {"value"}),
    "input": ({"label", "description", "placeholder", "value"}, {"label"}),
    "textarea": ({"label", "description", "placeholder", "value", "render"}, {"label"}),
    "dropdown": ({"label", "description", "multiple", "options", "default"}, {"label", "options"}),
    "checkboxes": ({"label", "description", "options"}, {"label", "options"}),
}


def wrong(form: dict[str, Any]) -> list[str]:
    """What GitHub would refuse the form for; source: its documents on the syntax of issue forms and of the form schema."""
    found = [f"{key} is missing" for key in ("name", "description", "body") if not form.get(key)]
    found += [
        f"{key} is unknown" for key in form.keys() - {"name", "description", "title", "labels", "assignees", "projects", "type", "body"}
    ]
    body = form.get("body") or []
    if not any(element.get("type") != "markdown" for element in body):
        found.append("nothing is asked")
    ids = [element["id"] for element in body if "id" in element]
    labels = [element["attributes"]["label"] for element in body if "label" in element.get("attributes", {})]
    found += [f"{name} twice" for names in (ids, labels) for name in sorted(set(names)) if names.count(name) > 1]
    found += [f"id {name}" for name in ids if not re.fullmatch(r"[A-Za-z0-9_-]+", name)]
    for element in body:
        found += _wrong_element(element)
    return found


def _wrong_element(element: dict[str, Any]) -> list[str]:
    kind, given = element.get("type"), element.get("attributes", {})
    if kind not in ATTRIBUTES:
        return [f"type {kind}"]
    known, needed = ATTRIBUTES[kind]
    found = [f"{kind}: {name} is unknown" for name in given.keys() - known]
    found += [f"{kind}: {name} is missing" for name in needed if not given.get(name)]
    found += [f"{kind}: {name} is unknown" for name in element.keys() - {"type", "id", "attributes", "validations"}]
    found += [f"{kind}: {name} is no text" for name in ("label", "description", "placeholder") if not isinstance(given.get(name, ""), str)]
    if kind == "dropdown" and len(set(given.get("options", []))) < len(given.get("options", [])):
        found.append("dropdown: options twice")
    if element.get("validations", {"required": True}).keys() != {"required"}:
        found.append(f"{kind}: validations")
    return found


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_one_that_github_takes(path: Path) -> None:
    assert not wrong(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_demands_what_explains_a_number(path: Path) -> None:
    body = yaml.safe_load(path.read_text(encoding="utf-8"))["body"]
    demanded = " ".join(str(element["attributes"]) for element in body if element.get("validations", {}).get("required"))
    for part in ("git rev-parse HEAD", "spark-submit.sh triage", "file", "offset", "epoch"):
        assert part in demanded.lower().replace("head", "HEAD"), part


def test_there_is_a_form_for_each_kind_of_report_and_one_for_changes() -> None:
    assert [path.stem for path in FORMS] == ["1-false-alarm", "2-missed-divergence", "3-bad-input"]
    assert "tests/run.sh" in (ROOT / ".github" / "pull_request_template.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "name is missing"),
        ({"colour": "red"}, "colour is unknown"),
        ({"body": [{"type": "markdown", "attributes": {"value": "text"}}]}, "nothing is asked"),
        ({"body": [{"type": "text", "attributes": {}}]}, "type text"),
        ({"body": [{"type": "input", "attributes": {"description": "what"}}]}, "input: label is missing"),
        ({"body": [{"type": "input", "attributes": {"label": "A", "render": "text"}}]}, "input: render is unknown"),
        ({"body": [{"type": "input", "attributes": {"label": "A", "description": {"a": 1}}}]}, "input: description is no text"),
        ({"body": [{"type": "input", "attributes": {"label": "A"}}] * 2}, "A twice"),
        ({"body": [{"type": "input", "id": "a b", "attributes": {"label": "A"}}]}, "id a b"),
        ({"body": [{"type": "input", "required": True, "attributes": {"label": "A"}}]}, "input: required is unknown"),
        ({"body": [{"type": "dropdown", "attributes": {"label": "A", "options": ["x", "x"]}}]}, "dropdown: options twice"),
    ],
)
def test_what_github_refuses_is_noticed(change: dict[str, Any], said: str) -> None:
    good = {"name": "A", "description": "B", "body": [{"type": "input", "attributes": {"label": "A"}}]}
    assert not wrong(good)
    assert said in wrong(good | change)
