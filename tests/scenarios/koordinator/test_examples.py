"""The manifests of examples/koordinator, applied to a real API server that keeps nothing, with the policies."""

from __future__ import annotations

from typing import Final

import pytest

from dra.cli.translation_policies import POLICIES_FILE
from dra.engine.translation.translated_pods import translate, translated_pod
from tests.cluster.kubectl import kubectl
from tests.dra.engine.translation.test_koordinator_examples import TEMPLATES, documents, example_pod
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import NAMESPACES
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [
    pytest.mark.modes(Mode.ALONGSIDE),
    pytest.mark.needs(Capability.RIGHTS, Feature.GATE_POLICY),
]

PATHS: Final = {"Pod": ("v1", "pods"), "Deployment": ("apps/v1", "deployments"), "Job": ("batch/v1", "jobs")}


async def dry_run(api: Api, obj: Json, *, namespace: str) -> Json:
    """Create an object that the API server validates and does not keep."""
    obj = obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "namespace"}}
    version, plural = PATHS[obj["kind"]]
    prefix = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    found: Json = await api.request(
        "POST", f"{prefix}/namespaces/{namespace}/{plural}", obj, query={"dryRun": "All", "fieldValidation": "Strict"}
    )
    return found


@pytest.fixture
async def place(target: Target, namespace: Namespace) -> Namespace:
    """A namespace with the label of the example, in which the policies are in force."""
    kubectl("apply", "--validate=strict", f"--filename={POLICIES_FILE}", kubeconfig=target.admin)
    (manifest,) = documents("00-namespace.yaml")
    await namespace.api.patch(NAMESPACES, namespace.name, {"metadata": {"labels": manifest["metadata"]["labels"]}})

    async def translates() -> bool:
        (pod,) = documents("half-a-card.yaml")
        return "resourceClaims" in (await dry_run(namespace.api, pod, namespace=namespace.name))["spec"]

    await eventually(translates, saying=f"{POLICIES_FILE} is in force")
    return namespace


@pytest.mark.parametrize("name", TEMPLATES)
async def test_an_example_is_accepted_and_its_pod_translated_as_by_the_engine(place: Namespace, name: str) -> None:
    (manifest,) = documents(name)
    await dry_run(place.api, manifest, namespace=place.name)
    pod = example_pod(name)
    made = await dry_run(place.api, {"apiVersion": "v1", "kind": "Pod", **pod}, namespace=place.name)
    wanted = translated_pod(pod, translate(pod).entries)
    assert made["spec"]["resourceClaims"] == wanted["spec"]["resourceClaims"]
    for given, expected in zip(made["spec"]["containers"], wanted["spec"]["containers"], strict=True):
        assert given["resources"]["claims"] == expected["resources"]["claims"]
        assert not any("gpu" in key for key in given["resources"].get("limits", {}))


async def test_the_slices_for_trying_are_valid(place: Namespace) -> None:
    for each in documents("slices-for-trying.yaml"):
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        await place.api.request("POST", "/apis/resource.k8s.io/v1/resourceslices", each, query=query)
