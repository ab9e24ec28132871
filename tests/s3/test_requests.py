"""What a broker's folder in a store costs in requests: pages of its listing, and what is opened of it. Nothing is asked about by name.

OBJECTS=100000 of the environment takes that many.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from urllib.parse import parse_qs, urlsplit

import pytest

from replica_audit.files.locations import located
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import LogDirectory, ReplicaFiles
from replica_audit.storage.inputs.sources import discover
from tests.s3.store import Store

pytestmark = pytest.mark.slow
_OBJECTS = int(os.environ.get("OBJECTS", "1040"))
_PAGE = 1000  # keys in an answer of S3
_OF_THE_LOG_DIRECTORY = {
    "meta.properties": b"version=1\nnode.id=1\ncluster.id=many\n",
    "replication-offset-checkpoint": b"0\n0\n",
    "recovery-point-offset-checkpoint": b"0\n0\n",
}
_OF_A_REPLICA = {
    "leader-epoch-checkpoint": b"0\n1\n0 0\n",
    "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    "00000000000000000000.log": b"",
    "00000000000000000000.index": bytes(16),
}


@pytest.fixture(scope="module")
def many(store: Store) -> str:
    """A broker's log directory with a lot of replicas, whose segments are empty."""
    client = store.client()
    client.create_bucket(Bucket="many")
    content = {f"broker-1/data/orders-{n}/{name}": b for n in range(_OBJECTS // len(_OF_A_REPLICA)) for name, b in _OF_A_REPLICA.items()}
    content |= {f"broker-1/data/{name}": b for name, b in _OF_THE_LOG_DIRECTORY.items()}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: client.put_object(Bucket="many", Key=item[0], Body=item[1]), content.items()))
    return "s3://many"


def asked(store: Store, work: Callable[[], object]) -> tuple[int, Counter[tuple[str, str]]]:
    """How many pages of listings the store was asked for meanwhile, and the other requests, by method and path."""

    def recorder(what: str) -> bytes:
        request = urllib.request.Request(f"{store.endpoint}/moto-api/recorder/{what}", data=b"", method="GET" if what[0] == "d" else "POST")  # noqa: S310
        with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
            return bytes(answer.read())

    recorder("reset-recording")
    recorder("start-recording")
    work()
    recorder("stop-recording")
    requests = [json.loads(line) for line in recorder("download-recording").splitlines()]
    pages, others = 0, Counter[tuple[str, str]]()
    for one in requests:
        url = urlsplit(one["url"])
        if "list-type" in parse_qs(url.query):
            pages += 1
        else:
            others[one["method"], url.path] += 1
    return pages, others


def test_a_listing_tells_all_and_only_what_is_opened_is_asked_for(store: Store, many: str) -> None:
    found: list[object] = []
    pages, others = asked(store, lambda: found.extend(replicas_of(located(f"{many}/broker-1"))))
    replicas = [one for one in found if isinstance(one, ReplicaFiles)]
    assert len(replicas) == _OBJECTS // len(_OF_A_REPLICA)
    assert [type(one) for one in found if one not in replicas] == [LogDirectory]
    assert {(one.checkpoint_state, one.topic_id) for one in replicas} == {("ok", "AAAAAAAAAAAAAAAAAAAAAQ")}
    assert {(file.size_bytes, file.base_offset) for one in replicas for file in one.segments} == {(0, 0)}
    assert pages == ceil((_OBJECTS + len(_OF_THE_LOG_DIRECTORY)) / _PAGE)
    by_name = Counter((method, path.rpartition("/")[2]) for (method, path), times in others.items() for _time in range(times))
    assert not [name for _method, name in by_name if name.endswith(".index")], "nothing of it is needed"
    opened = {name: len(replicas) for name in _OF_A_REPLICA if not name.endswith(".index")} | dict.fromkeys(_OF_THE_LOG_DIRECTORY, 1)
    for method in ("HEAD", "GET"):  # Arrow asks for the size of what it opens
        told = {name: times for (how, name), times in by_name.items() if how == method}
        assert all(times <= opened[name] for name, times in told.items()), (method, told)


def test_brokers_are_found_without_asking_for_their_files(store: Store, many: str) -> None:
    pages, others = asked(store, lambda: discover([many]))
    assert pages <= 5 + 2 * ceil(_OBJECTS / len(_OF_A_REPLICA) / _PAGE)
    assert sum(others.values()) <= 10
