"""How clusters are called in what people read."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from replica_audit.report.facts.assessment import labels


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        pytest.param(["/backup/prod"], ["prod"], id="one"),
        pytest.param(["/backup/prod", "/backup/test"], ["prod", "test"], id="the last part"),
        pytest.param(["/audits/prod/before", "/audits/test/before"], ["prod", "test"], id="not what all end in"),
        pytest.param(["/audits/prod/a/before", "/audits/test/a/before"], ["prod", "test"], id="nor more of it"),
        pytest.param(["/eu/prod", "/eu/test", "/us/prod"], ["eu/prod", "eu/test", "us/prod"], id="as much as it takes"),
        pytest.param(["/prod", "/x/prod"], ["/prod", "x/prod"], id="of other depth"),
        pytest.param(["/prod", "/prod"], ["/prod", "/prod"], id="the same"),
        pytest.param([], [], id="none"),
    ],
)
def test_a_cluster_is_called_by_what_tells_it_from_the_others(paths: list[str], expected: list[str]) -> None:
    found = labels({f"c{number}": PurePath(path) for number, path in enumerate(paths)})
    assert list(found.values()) == expected
