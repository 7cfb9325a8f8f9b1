"""Manifests with requests in Koordinator's form, applied to servers with and without mutating policies."""

import asyncio
from typing import Any

import msgspec
import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.koordinator_requests import MUTATING_POLICIES, RequestTranslator
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.kube.errors import NotFound, Status
from dra.kube.resources import Resource
from tests.dra.engine.translation.examples import container, gpus, lsr, pod

ENABLED = {"reserve.dra/koordinator": "enabled"}


class Server:
    """The client of an API server that serves what a test lists."""

    def __init__(self, *, served: list[str], labels: dict[str, str], classes: dict[str, int]) -> None:
        self._served, self._labels, self._classes = served, labels, classes
        self.asked: list[str] = []

    async def read(self, path: str, model: type[Any]) -> Any:
        self.asked.append(path)
        return msgspec.convert({"resources": [{"name": name} for name in self._served]}, model)

    async def get(self, resource: Resource, key: tuple[str, str], model: type[Any]) -> Any:
        self.asked.append(resource.path(*key))
        if resource.kind == "Namespace":
            return msgspec.convert({"metadata": {"name": key[1], "labels": self._labels}}, model)
        if key[1] not in self._classes:
            raise NotFound("absent", Status(code=404))
        return msgspec.convert({"metadata": {"name": key[1]}, "value": self._classes[key[1]]}, model)


def translated(
    *manifests: dict[str, Any],
    served: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    classes: dict[str, int] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the manifests as applied, and the paths that were read."""
    server = Server(served=[*served], labels=ENABLED if labels is None else labels, classes=classes or {})
    translator = RequestTranslator(Connection(client=server, transport=None))  # type: ignore[arg-type]

    async def all_of_them() -> list[dict[str, Any]]:
        return [await translator.translated(each, namespace="ml") for each in manifests]

    return asyncio.run(all_of_them()), server.asked


def manifest(kind: str = "Pod", *, version: str = "v1", **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, **content}


HALF = pod(gpus(gpu="50"))
CLAIMS = [{"name": "koord-gpu-0", "resourceClaimTemplateName": "koord-gpu-c50-r50-s1"}]


def test_a_pod_gets_claims() -> None:
    ((made,), _) = translated(manifest(**HALF))
    assert made["spec"]["resourceClaims"] == CLAIMS
    assert (made["apiVersion"], made["kind"]) == ("v1", "Pod")


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        pytest.param("Deployment", "apps/v1", id="deployment"),
        pytest.param("StatefulSet", "apps/v1", id="stateful-set"),
        pytest.param("DaemonSet", "apps/v1", id="daemon-set"),
        pytest.param("ReplicaSet", "apps/v1", id="replica-set"),
        pytest.param("Job", "batch/v1", id="job"),
    ],
)
def test_a_pod_template_gets_claims(kind: str, version: str) -> None:
    ((made,), _) = translated(manifest(kind, version=version, spec={"replicas": 2, "template": HALF}))
    assert made["spec"]["template"]["spec"]["resourceClaims"] == CLAIMS
    assert made["spec"]["replicas"] == 2


def test_the_template_in_a_cron_job_gets_claims() -> None:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": HALF}}}
    ((made,), _) = translated(manifest("CronJob", version="batch/v1", spec=spec))
    assert made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["resourceClaims"] == CLAIMS


@pytest.mark.parametrize(
    ("given", "served", "labels"),
    [
        pytest.param(manifest(**HALF), (MUTATING_POLICIES,), None, id="the-server-has-policies"),
        pytest.param(manifest(**HALF), (), {}, id="the-namespace-has-no-label"),
        pytest.param(manifest(**pod(container(cpu="1"))), (), None, id="the-pod-asks-for-nothing"),
        pytest.param(manifest("ConfigMap", data={}), (), None, id="no-pod"),
        pytest.param(manifest("Deployment", version="apps/v1", spec=7), (), None, id="no-template"),
    ],
)
def test_other_manifests_stay_as_they_are(
    given: dict[str, Any], served: tuple[str, ...], labels: dict[str, str] | None
) -> None:
    ((made,), _) = translated(given, served=served, labels=labels)
    assert made is given


def test_a_pod_that_asks_for_nothing_costs_no_request() -> None:
    assert translated(manifest(**pod(container(cpu="1"))))[1] == []


def test_a_bad_request_is_refused_with_the_path_in_the_manifest() -> None:
    bad = manifest("Job", version="batch/v1", spec={"template": pod(gpus(gpu="150"))})
    with pytest.raises(MalformedManifestError, match=r"^spec\.template\.spec\.containers\[0\]\.resources\.limits\["):
        translated(bad)


def test_the_priority_is_that_of_the_priority_class() -> None:
    asked = lsr("2", priorityClassName="team")
    del asked["spec"]["priority"]
    ((made,), _) = translated(manifest(**asked), classes={"team": 9100})
    assert made["spec"]["resourceClaims"][0]["name"] == "koord-cpus"
    assert "priority" not in made["spec"]
    with pytest.raises(MalformedManifestError, match="priorityClass=none"):
        translated(manifest(**asked), classes={"team": 100})
    with pytest.raises(MalformedManifestError, match="priorityClass=none"):
        translated(manifest(**asked))


def test_the_server_is_asked_once() -> None:
    asked = lsr("2", priorityClassName="koord-prod")
    del asked["spec"]["priority"]
    many = [manifest(**asked)] * 3
    made, paths = translated(*many, classes={"koord-prod": 9500})
    assert len(made) == 3
    assert paths == [
        "/apis/admissionregistration.k8s.io/v1",
        "/api/v1/namespaces/ml",
        "/apis/scheduling.k8s.io/v1/priorityclasses/koord-prod",
    ]
