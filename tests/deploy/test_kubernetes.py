"""deploy/kubernetes and deploy/strimzi against the schemas of Kubernetes, and against what this program takes and ends with."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from replica_audit import acknowledged
from replica_audit.cli import DEFECT, INTERRUPTED
from replica_audit.commands.running import MOST_BYTES
from replica_audit.errors import LostProcessError
from tests.deploy.manifests import DEPLOY, Document, containers, documents, keys, misspelt, of_kind, parsed, pod_of

OLDEST, NEWEST = "1.31", "1.37"
FILES = [
    *sorted((DEPLOY / "kubernetes").glob("*.yaml")),
    DEPLOY / "strimzi" / "collect-job.yaml",
]
OBJECTS = [
    pytest.param(document, id=f"{path.name}-{document['kind']}-{number}")
    for path in FILES
    for number, document in enumerate(documents(path))
]
JOBS = [
    pytest.param(document, id=document["metadata"]["name"]) for document in [*of_kind("kubernetes", "CronJob"), *of_kind("strimzi", "Job")]
]


def validate(document: Document, version: str = NEWEST) -> None:
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("document", OBJECTS)
def test_kubernetes_knows_every_field(document: Document, version: str) -> None:
    validate(document, version)


@pytest.mark.slow
@pytest.mark.parametrize("document", OBJECTS)
def test_no_key_can_be_misspelt(document: Document) -> None:
    places = [place for place in keys(document) if place not in {("apiVersion",), ("kind",)}]
    assert places
    for place in places:
        with pytest.raises(kubernetes_validate.ValidationError):
            validate(misspelt(document, place))


def test_a_value_of_another_type_is_seen() -> None:
    (cron,) = of_kind("kubernetes", "CronJob")
    cron["spec"]["jobTemplate"]["spec"]["backoffLimit"] = "two"
    with pytest.raises(kubernetes_validate.ValidationError, match="backoffLimit"):
        validate(cron)


def ephemeral(custom: Document) -> Document:
    """A pod into which `kubectl debug --custom` has put the container."""
    container = {"name": "collect", "image": "x", "targetContainerName": "kafka", **custom}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "my-cluster-broker-0"},
        "spec": {"containers": [{"name": "kafka", "image": "x"}], "ephemeralContainers": [container]},
    }


def test_the_ephemeral_container_is_one() -> None:
    (custom,) = documents(DEPLOY / "strimzi" / "ephemeral-container.json")
    validate(ephemeral(custom), OLDEST)
    validate(ephemeral(custom))
    for place in keys(custom):
        with pytest.raises(kubernetes_validate.ValidationError):
            validate(ephemeral(misspelt(custom, place)))


@pytest.mark.parametrize("job", JOBS)
def test_the_options_are_those_of_the_program(job: Document) -> None:
    (container,) = containers(job)
    given = parsed(container["args"])
    assert str(given["termination_message"]) == container["terminationMessagePath"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"  # where the program cannot write it: killed, or not begun


def refused_options() -> list[str]:
    (cron,) = of_kind("kubernetes", "CronJob")
    return [*containers(cron)[0]["args"], "--warehous=/audits"]


def test_a_misspelt_option_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(refused_options())
    assert "--warehous=/audits" in capsys.readouterr().err


@pytest.mark.parametrize("job", JOBS)
def test_what_is_mounted_is_there_and_what_is_read_is_read_only(job: Document) -> None:
    (container,) = containers(job)
    claims = {document["metadata"]["name"] for document in of_kind("kubernetes", "PersistentVolumeClaim", "ConfigMap")}
    volumes = {volume["name"]: volume for volume in pod_of(job)["volumes"]}
    given = parsed(container["args"])
    written = {str(given.get("warehouse")), str(given.get("output")), "/tmp"}  # noqa: S108 - a container's own
    for mount in container["volumeMounts"]:
        volume = volumes.pop(mount["name"])
        assert mount.get("readOnly", False) is (mount["mountPath"] not in written)
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]
            assert claim.get("readOnly", False) is mount.get("readOnly", False)
            assert claim["claimName"] in claims or claim["claimName"].startswith("data-0-my-cluster-")
        if "configMap" in volume:
            assert volume["configMap"]["name"] in claims
    assert not volumes, "mounted by nothing"


def loose_ends(pod: Document) -> list[str]:
    """What a container might do that these need not do."""
    found = [] if pod["securityContext"].get("runAsNonRoot") and pod["securityContext"].get("runAsUser") else ["root"]
    found += [] if pod["securityContext"].get("seccompProfile") == {"type": "RuntimeDefault"} else ["seccomp"]
    found += [] if pod.get("automountServiceAccountToken") is False else ["token"]
    for container in pod["containers"]:
        context: dict[str, Any] = container.get("securityContext", {})
        found += [] if context.get("readOnlyRootFilesystem") else ["files"]
        found += [] if context.get("allowPrivilegeEscalation") is False else ["escalation"]
        found += [] if context.get("capabilities") == {"drop": ["ALL"]} else ["capabilities"]
        found += [] if {"cpu", "memory"} <= container.get("resources", {}).get("requests", {}).keys() else ["requests"]
        found += [] if "memory" in container.get("resources", {}).get("limits", {}) else ["limits"]
        # values of secrets stand in secrets
        found += [f"{one['name']} in the open" for one in container.get("env", ()) if "value" in one and "AWS" in one["name"]]
    return found


@pytest.mark.parametrize("job", JOBS)
def test_a_pod_can_do_no_more_than_it_has_to(job: Document) -> None:
    pod = pod_of(job)
    assert loose_ends(pod) == []
    for place in [place for place in keys(pod) if "securityContext" in place[:-1] and place[-1] not in ("type", "runAsGroup")]:
        if not str(place[-1]).startswith("fsGroup"):
            assert loose_ends(misspelt(pod, place)), place
    opened = copy.deepcopy(pod)
    opened["containers"][0].setdefault("env", []).append({"name": "AWS_SECRET_ACCESS_KEY", "value": "x"})
    assert loose_ends(opened) == ["AWS_SECRET_ACCESS_KEY in the open"]


def test_answers_end_the_job_and_interruptions_do_not() -> None:
    """A Job's condition then names the exit code, which a CronJob shows nowhere else once the pod is gone."""
    (cron,) = of_kind("kubernetes", "CronJob")
    spec = cron["spec"]["jobTemplate"]["spec"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # a podFailurePolicy needs it
    (rule,) = [rule for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["containerName"] == containers(cron)[0]["name"]
    assert set(rule["onExitCodes"]["values"]) == {1, 2, 3, DEFECT}
    assert not {*INTERRUPTED, LostProcessError.exit_code} & set(rule["onExitCodes"]["values"])
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    # what makes it right to take a run over: the pod that made it has ended
    assert parsed(containers(cron)[0]["args"])["take_over"] and spec["podReplacementPolicy"] == "Failed"


def test_the_list_of_known_findings_can_be_loaded(tmp_path: Path) -> None:
    (known,) = of_kind("kubernetes", "ConfigMap")
    (name,) = known["data"]
    path = tmp_path / name
    path.write_text(known["data"][name], encoding="utf-8")
    from datetime import date

    acknowledged.load(path, date(2026, 1, 2))
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == []


def test_the_message_fits() -> None:
    """Kubernetes keeps 4096 bytes of a container's message; the constant is its own, so it is compared with its documented text."""
    schema = Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{NEWEST}.0-local-strict" / "container-v1.json"
    said = json.loads(schema.read_text(encoding="utf-8"))["properties"]
    assert f"{MOST_BYTES} bytes" in said["terminationMessagePath"]["description"]
