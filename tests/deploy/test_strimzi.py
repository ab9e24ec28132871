"""deploy/strimzi/node-pool.yaml against Strimzi's own classes, and the names and paths that the collector's files take from it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError

from tests.deploy.manifests import DEPLOY, Document, containers, documents, keys, misspelt, of_kind, parsed, pod_of
from tests.house.checkout import ROOT
from tests.support.jvm import jvm, own_exceptions

(POOL,) = of_kind("strimzi", "KafkaNodePool")


@pytest.fixture(scope="module")
def strimzi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaGateway]:
    spark = find_spec("pyspark")
    assert spark is not None and spark.submodule_search_locations
    class_path = f"{ROOT}/.cache/strimzi-jars/*:{spark.submodule_search_locations[0]}/jars/*"
    with own_exceptions(), jvm(class_path, [], tmp_path_factory.mktemp("strimzi") / "stderr") as gateway:
        yield gateway


def unknown(gateway: JavaGateway, document: Document) -> list[str]:
    """What Strimzi's class does not know of a document: it keeps such keys apart, and a value that it does not know is null."""
    name = "io.strimzi.api.kafka.model.nodepool.KafkaNodePool"
    mapper = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper()
    try:
        return list(_unknown(mapper.readValue(json.dumps(document), gateway.jvm.java.lang.Class.forName(name)), document, ""))
    except Py4JJavaError as error:
        return [str(error.java_exception.getMessage())]


def _unknown(held: Any, value: object, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("labels", "matchLabels"):
                continue
            try:
                found = getattr(held, f"get{key[0].upper()}{key[1:]}")()
            except Py4JError:
                try:
                    found = getattr(held, f"is{key[0].upper()}{key[1:]}")()
                except Py4JError:
                    yield f"{place}.{key}"
                    continue
            yield from _unknown(found, inner, f"{place}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _unknown(held[number], inner, f"{place}[{number}]")
    elif held is None:
        yield place


@pytest.mark.oracle
def test_strimzi_knows_every_field_and_value(strimzi: JavaGateway) -> None:
    assert unknown(strimzi, POOL) == []
    versions = strimzi.jvm.io.strimzi.api.kafka.model.nodepool.KafkaNodePool.VERSIONS
    assert POOL["apiVersion"].removeprefix("kafka.strimzi.io/") in list(versions)
    for place in keys(POOL):
        assert unknown(strimzi, misspelt(POOL, place)), place
    changed = copy.deepcopy(POOL)
    changed["spec"]["roles"].append("brokr")
    assert unknown(strimzi, changed) == [".spec.roles[1]"]


def test_the_collector_finds_the_volume_of_the_pool() -> None:
    """Strimzi names a claim data-VOLUME-CLUSTER-POOL-NODE; its log directory is data-VOLUME/kafka-logNODE below /var/lib/kafka."""
    (volume,) = POOL["spec"]["storage"]["volumes"]
    cluster, pool = POOL["metadata"]["labels"]["strimzi.io/cluster"], POOL["metadata"]["name"]
    (job,) = of_kind("strimzi", "Job")
    (custom,) = documents(DEPLOY / "strimzi" / "ephemeral-container.json")
    pod = pod_of(job)
    (affinity,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    broker = affinity["labelSelector"]["matchLabels"]["strimzi.io/pod-name"]
    node = broker.removeprefix(f"{cluster}-{pool}-")
    assert node.isdigit() and job["metadata"]["name"] == f"collect-{broker}"
    (mounted,) = [one for one in pod["volumes"] if one.get("persistentVolumeClaim", {}).get("claimName") == f"data-{volume['id']}-{broker}"]
    (mount,) = [one for one in containers(job)[0]["volumeMounts"] if one["name"] == mounted["name"]]
    given = parsed(containers(job)[0]["args"])
    assert mount["mountPath"] == f"/var/lib/kafka/data-{volume['id']}" and mount["readOnly"]
    assert given["log_dir"] == [Path(f"{mount['mountPath']}/kafka-log{node}")]
    assert custom["volumeMounts"] == [{"name": f"data-{volume['id']}", "mountPath": mount["mountPath"], "readOnly": True}]


def test_the_collector_reads_as_the_user_that_owns_the_files() -> None:
    owner = POOL["spec"]["template"]["pod"]["securityContext"]
    (job,) = of_kind("strimzi", "Job")
    (custom,) = documents(DEPLOY / "strimzi" / "ephemeral-container.json")
    for context in (pod_of(job)["securityContext"], custom["securityContext"]):
        assert (context["runAsUser"], context["runAsGroup"]) == (owner["runAsUser"], owner["runAsGroup"])
        assert context["runAsNonRoot"] and context["runAsUser"] != 0
