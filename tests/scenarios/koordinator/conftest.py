"""A cluster with published cards, the policies of deploy/koordinator, and namespaces whose pods they translate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from dra.cli.translation_policies import POLICIES_FILE
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME
from tests.cluster.kubectl import kubectl
from tests.dra.engine.translation.examples import gpus, pod
from tests.scenarios import installation, objects
from tests.scenarios.api import ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.koordinator import agreement
from tests.scenarios.koordinator.cards import NODES, Cards, resource_slice
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import DEVICE_CLASSES, NAMESPACES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.target import Target

PRIORITIES: Final = (0, 3999, 5500, 5999, 7000, 9000, 9500, 10000)

DEPLOY: Final = installation.DEPLOY / "koordinator"


@pytest.fixture
async def card_class(namespace: Namespace) -> None:
    """The class of cards, which also serves the extended resource of whole cards."""
    made = objects.device_class(DRIVER_NAME, driver=DRIVER_NAME)
    made["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    await create_class(namespace, made)


async def create_class(namespace: Namespace, made: Json) -> None:
    """Create a DeviceClass, once that of an earlier test is gone: the name is a driver's, so tests share it."""
    name = made["metadata"]["name"]
    await eventually(
        lambda: namespace.api.find(DEVICE_CLASSES, name),
        until=lambda found: found is None,
        saying=f"deviceclass {name} of an earlier test is gone",
    )
    await namespace.create(made)


@pytest.fixture
async def cards(namespace: Namespace, card_class: None) -> Cards:
    """The cards of all nodes."""
    del card_class
    for node, sizes in NODES.items():
        await namespace.create(resource_slice(node, sizes))
    return Cards(namespace)


@pytest.fixture(scope="module")
def policies(target: Target) -> Path:
    """The policies, installed; they apply to labelled namespaces alone, so they can stay."""
    kubectl("apply", "--validate=strict", f"--filename={POLICIES_FILE}", kubeconfig=target.admin)
    return POLICIES_FILE


@pytest.fixture
async def place(policies: Path, namespace: Namespace) -> Namespace:
    """A namespace whose pods are translated."""
    for value in PRIORITIES:
        await create_once(namespace, agreement.priority_class(value))
    await namespace.api.patch(NAMESPACES, namespace.name, {"metadata": {"labels": agreement.LABEL}})

    async def translates() -> bool:
        found = await agreement.by_the_policies(namespace.api, pod(gpus(gpu="50")), namespace=namespace.name)
        refused = await agreement.by_the_policies(namespace.api, pod(gpus(gpu="150")), namespace=namespace.name)
        return bool(found.claims) and bool(refused.refusals)

    await eventually(translates, saying=f"{policies} is in force")
    return namespace


async def create_once(namespace: Namespace, obj: Json) -> None:
    """Create an object unless there is one of its name."""
    try:
        await namespace.create(obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


@pytest.fixture(scope="module")
def kustomization(target: Target) -> Iterator[None]:
    """What deploy/koordinator installs."""
    installation.install(target.admin, kustomization=DEPLOY)
    yield
    kubectl("delete", "--ignore-not-found", f"--kustomize={DEPLOY}", kubeconfig=target.admin)


@pytest.fixture
async def installed(kustomization: None, namespace: Namespace) -> None:
    """A namespace that opted in, with what deploy/koordinator installs."""
    del kustomization
    await label(namespace, "enabled")


async def label(namespace: Namespace, value: str | None) -> None:
    labels = {"metadata": {"labels": {"reserve.dra/koordinator": value}}}
    await namespace.api.patch(NAMESPACES, namespace.name, labels)
