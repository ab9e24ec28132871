"""Folders of stores that have none of their own, and failures of their libraries that are no `OSError`."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import fs

from replica_audit.files.object_store import StoreError, folded, told_plainly


def a_file(path: str, size: int = 1) -> fs.FileInfo:
    return fs.FileInfo(path, fs.FileType.File, size=size)


def a_folder(path: str) -> fs.FileInfo:
    return fs.FileInfo(path, fs.FileType.Directory)


LOG = "b/top/broker-1/data/t-0/0.log"


@pytest.mark.parametrize(
    "told",
    [
        [a_file(LOG, 7), a_file("b/top/broker-1/x", 2)],
        [a_folder("b/top/broker-1"), a_folder("b/top/broker-1/data/"), a_file(LOG, 7), a_file("b/top/broker-1/x", 2)],
        [a_file("b/top/broker-1/x", 2), a_file(LOG, 7), a_folder("b/top/broker-1/data"), a_folder("b/top/broker-1/")],
    ],
    ids=["none told", "told before", "told after"],
)
def test_folders_follow_from_what_is_below_them(told: list[fs.FileInfo]) -> None:
    found = {path: sorted(inside) for path, inside in folded("b/top", told).items()}
    assert {path: inside for path, inside in found.items() if inside} == {
        "b/top": [("broker-1", True, 0)],
        "b/top/broker-1": [("data", True, 0), ("x", False, 2)],
        "b/top/broker-1/data": [("t-0", True, 0)],
        "b/top/broker-1/data/t-0": [("0.log", False, 7)],
    }


def test_an_object_and_a_folder_may_have_one_name() -> None:
    assert sorted(folded("b", [a_file("b/x", 3), a_file("b/x/y", 4)])["b"]) == [("x", False, 3), ("x", True, 0)]


def test_what_only_arrow_calls_an_error_has_a_remedy() -> None:
    with pytest.raises(StoreError, match="no token") as told, told_plainly():
        raise pa.ArrowException("no token")
    assert "credentials" in told.value.remedy
