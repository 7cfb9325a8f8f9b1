"""A cluster with the policies of deploy/colocation-profiles; tests write the parameters in the place of the loop."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from dra.api.object_fields import to_document
from dra.api.profiles.parameters import ParametersSpec, ResolvedProfile
from tests.cluster.kubectl import kubectl
from tests.dra.engine.profiles.examples import PRIORITIES, container, pod, profile, resolved
from tests.scenarios import installation
from tests.scenarios.api import ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.profiles import agreement
from tests.scenarios.resources import COLOCATION_PARAMETERS, NAMESPACES

if TYPE_CHECKING:
    from tests.scenarios.target import Target

DEPLOY: Final = installation.DEPLOY / "colocation-profiles"
PROBE: Final = "probe.example.com/generation"

_generations: Final = itertools.count(1)


@pytest.fixture(scope="module")
def installed(target: Target) -> Iterator[None]:
    """What deploy/colocation-profiles installs, for the time of a module: the guard concerns all namespaces."""
    objects = installation.rendered(DEPLOY, admin=target.admin)
    crds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    _kubectl(target, "apply", crds)
    for each in crds:
        kubectl("wait", "--for=condition=Established", f"crd/{each['metadata']['name']}", kubeconfig=target.admin)
    _kubectl(target, "apply", objects)
    yield
    _kubectl(target, "delete", [each for each in objects if each["kind"] != "CustomResourceDefinition"])
    _kubectl(target, "delete", crds)


def _kubectl(target: Target, verb: str, objects: list[Json]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    more = ["--ignore-not-found"] if verb == "delete" else []
    kubectl(verb, "--filename=-", *more, kubeconfig=target.admin, stdin=json.dumps(listed))


class Place:
    """A namespace whose pods get profiles, and the parameters of the policy."""

    def __init__(self, namespace: Namespace, target: Target) -> None:
        self.namespace: Final = namespace
        self.api: Final = namespace.api
        self.target: Final = target

    async def apply(self, *profiles: Mapping[str, Any]) -> list[ResolvedProfile]:
        """Give the policy profiles, wait until they are in force, and return them as the engine takes them."""
        generation = str(next(_generations))
        marker = profile("zz-probe", selector={"matchLabels": {"probe": "true"}}, annotations={PROBE: generation})
        marker["spec"]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace.name}}
        found = resolved(*profiles, marker)
        spec = to_document(ParametersSpec(profiles=found))
        await self.api.patch(
            COLOCATION_PARAMETERS,
            "profiles",
            {
                "apiVersion": COLOCATION_PARAMETERS.api_version,
                "kind": COLOCATION_PARAMETERS.kind,
                "metadata": {"name": "profiles"},
                "spec": spec,
            },
            kind="apply-patch",
        )

        async def in_force() -> bool:
            made = await agreement.by_the_policies(
                self.api, pod(labels={"probe": "true"}), namespace=self.namespace.name
            )
            return bool(made.annotations.get(PROBE) == generation)

        await eventually(in_force, saying="the parameters are in force")
        return [*found]

    async def create(self, given: Json) -> Json:
        """Create a pod as a person writes it."""
        return await self.namespace.create(agreement.sent(given))

    async def send(self, given: Json) -> Json:
        """Return what the API server makes of a pod that it does not keep."""
        return await agreement.send(self.api, given, namespace=self.namespace.name)


@pytest.fixture
async def place(installed: None, namespace: Namespace, target: Target) -> AsyncIterator[Place]:
    """A namespace with the label of the manual, the PriorityClasses of Koordinator, and no profiles afterwards."""
    del installed
    for name, value in PRIORITIES.items():
        await _create_once(
            namespace,
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value},
        )
    labels = {"metadata": {"labels": {"koordinator.sh/enable-colocation": "true"}}}
    await namespace.api.patch(NAMESPACES, namespace.name, labels)
    found = Place(namespace, target)

    async def guarded() -> bool:
        refused = pod(container(requests={"cpu": "1"}), labels={"koordinator.sh/qosClass": "BE"})
        made = await agreement.by_the_policies(found.api, refused, namespace=namespace.name)
        return made.refusals != ""

    await eventually(guarded, saying="the guard is in force")
    yield found
    await asyncio.to_thread(
        kubectl, "delete", COLOCATION_PARAMETERS.plural, "profiles", "--ignore-not-found", kubeconfig=target.admin
    )


async def _create_once(namespace: Namespace, obj: Json) -> None:
    try:
        await namespace.create(obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
