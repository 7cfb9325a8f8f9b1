"""What deploy/ holds is accepted by the API server as it stands, and does what it says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios import api as kubernetes
from tests.scenarios.api import Api, ApiError
from tests.scenarios.installation import KUSTOMIZATION
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import CLAIMS, JOBS, NODES, PODS
from tests.scenarios.target import Mode, Target

pytestmark = pytest.mark.modes(Mode.ALONGSIDE)


@pytest.mark.parametrize("overlay", [".", "alongside", "replace", "kind"])
def test_the_kustomization_is_accepted_as_a_whole(target: Target, overlay: str) -> None:
    strictly = ("--dry-run=server", "--validate=strict", "--output=name")
    accepted = kubectl("apply", "--kustomize", str(KUSTOMIZATION / overlay), *strictly, kubeconfig=target.admin)
    assert "deployment.apps/dra-reserve-controller" in accepted.splitlines()


@pytest.mark.parametrize("kustomization", ["kubelet-plugin", "kubelet-plugin-nvidia", "kubelet-plugin-static"])
def test_the_kustomization_of_the_kubelet_plugin_is_accepted(target: Target, kustomization: str) -> None:
    strictly = ("--dry-run=server", "--validate=strict", "--output=name")
    rendered = kubectl("kustomize", str(KUSTOMIZATION.parent / kustomization), kubeconfig=target.admin)
    # In a namespace that is there: on a dry run that of the kustomization is not made.
    everywhere = rendered.replace("namespace: dra-reserve-nodes", "namespace: default")
    accepted = kubectl("apply", "--filename=-", *strictly, kubeconfig=target.admin, stdin=everywhere)
    assert "daemonset.apps/dra-reserve-kubelet-plugin" in accepted.splitlines()


@pytest.fixture
async def controller(target: Target) -> AsyncIterator[Api]:
    """The API as the controller's service account may use it."""
    async with kubernetes.connect(target.controller) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "resource", "name", "subresource"),
    [
        pytest.param("DELETE", CLAIMS, None, None, id="delete-all-claims"),
        pytest.param("POST", PODS, None, None, id="create-a-pod"),
        pytest.param("DELETE", PODS, None, None, id="delete-all-pods"),
        pytest.param("PUT", PODS, "p", "status", id="replace-the-status-of-a-pod"),
        pytest.param("POST", PODS, "p", "eviction", id="evict-a-pod-by-the-eviction-api"),
        pytest.param("POST", PODS, "p", "binding", id="bind-a-pod"),
        pytest.param("PATCH", JOBS, "j", None, id="write-a-workload"),
        pytest.param("PATCH", NODES, "n", None, id="write-a-node"),
    ],
)
async def test_the_service_account_may_not(
    controller: Api, namespace: Namespace, method: str, resource: Any, name: str | None, subresource: str | None
) -> None:
    within = namespace.name if resource.namespaced else None
    path = resource.path(namespace=within, name=name, subresource=subresource)
    merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
    with pytest.raises(ApiError) as refused:
        await controller.request(method, path, {}, content_type=merge)
    assert refused.value.status == 403
