"""deploy/spark-operator against the models that the operator's project publishes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.manifests import Document, keys, misspelt, of_kind, parsed
from tests.house.checkout import ROOT
from tests.house.test_layout import constraints

(SCHEDULED,) = of_kind("spark-operator", "ScheduledSparkApplication")
TEMPLATE: dict[str, Any] = SCHEDULED["spec"]["template"]


def differs(document: Document) -> bool:
    """Whether the operator would take another object than the document says: a key that it does not know is dropped in silence."""
    # takes seconds to load, which each worker would spend while it collects
    from kubeflow_spark_api.models.spark_v1beta2_scheduled_spark_application import SparkV1beta2ScheduledSparkApplication

    taken = SparkV1beta2ScheduledSparkApplication.from_dict(document)
    assert taken is not None
    return bool(taken.to_dict() != document)


def test_the_operator_knows_every_field() -> None:
    assert not differs(SCHEDULED)


def test_no_key_can_be_misspelt() -> None:
    places = [place for place in keys(SCHEDULED) if place != ("kind",)]
    assert len(places) > 60
    for place in places:
        try:
            assert differs(misspelt(SCHEDULED, place)), place
        except ValueError:  # a key that has to be there, or a value of another type
            continue


def test_the_options_are_those_of_the_program_and_the_files_those_of_the_image() -> None:
    given = parsed(["audit", *TEMPLATE["arguments"]])
    assert str(given["termination_message"]) == "/dev/termination-log"
    job = TEMPLATE["mainApplicationFile"].removeprefix("local:///opt/replica-audit/")
    assert (ROOT / job).is_file()
    recipe = (ROOT / "deploy" / "image" / "Containerfile").read_text(encoding="utf-8")
    assert "/opt/replica-audit/jobs" in recipe
    assert TEMPLATE["sparkVersion"] == constraints()["pyspark"]


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_pods_mount_what_there_is(role: str) -> None:
    volumes = {volume["name"] for volume in TEMPLATE["volumes"]}
    assert {mount["name"] for mount in TEMPLATE[role]["volumeMounts"]} == volumes
    assert TEMPLATE[role]["podSecurityContext"]["runAsNonRoot"] and TEMPLATE[role]["securityContext"]["readOnlyRootFilesystem"]
    assert TEMPLATE["mode"] == "cluster"  # in client mode the driver would run in the operator's own pod
    assert TEMPLATE["restartPolicy"] == {"type": "Never"}  # findings are no reason to audit again


def test_the_settings_are_those_of_every_other_start() -> None:
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    settings = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    assert len(settings) > 15
    assert TEMPLATE["sparkConf"] == settings | {"spark.local.dir": "/tmp"}  # noqa: S108 - a container's own
