"""Kinds of workloads that nobody has heard of: CRDs made up by a scenario, and the right to read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import condition
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import CRDS, Resource

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

Json = dict[str, Any]

AGGREGATED: Final = "reserve.dra/aggregate-to-workload-reader"
"""The label by which deploy/kustomize collects the rights to read workloads."""


@dataclass(frozen=True)
class Kind:
    """A kind of objects called shoals, in an API group of the namespace's own."""

    namespace: Namespace

    @property
    def group(self) -> str:
        """The API group."""
        return f"{self.namespace.name}.scenario.dra"

    @property
    def resource(self) -> Resource:
        """Where its objects live."""
        return Resource(f"{self.group}/v1", "Shoal", "shoals")

    def reference(self, name: str) -> str:
        """Return what a claim says to be reserved for the object of that name."""
        return f"shoals.{self.group}/{name}"

    async def define(self) -> None:
        """Create the CRD, which ends with the namespace, and wait until the API server serves the kind."""
        name = f"shoals.{self.group}"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        await self.namespace.create(
            {
                "apiVersion": CRDS.api_version,
                "kind": CRDS.kind,
                "metadata": {"name": name},
                "spec": {
                    "group": self.group,
                    "scope": "Namespaced",
                    "names": {"plural": "shoals", "singular": "shoal", "kind": "Shoal"},
                    "versions": [
                        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                    ],
                },
            }
        )
        await eventually(
            lambda: self.namespace.api.get(CRDS, name),
            until=lambda crd: condition(crd, "Established") == "True",
            saying=f"{name} is served",
        )

    async def let_controller_read(self) -> None:
        """Grant what deploy/kustomize/base/workload-rights.yaml tells users to grant."""
        rule = {"apiGroups": [self.group], "resources": ["shoals"], "verbs": ["get", "list", "watch"]}
        await self.namespace.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": f"shoals-{self.namespace.name}", "labels": {AGGREGATED: "true"}},
                "rules": [rule],
            }
        )

    async def create(self, name: str, **content: Any) -> Json:
        """Create an object of the kind."""
        shoal = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": {"name": name}}
        path = self.resource.path(namespace=self.namespace.name)
        return await self.namespace.api.request("POST", path, shoal | content)

    async def delete(self, name: str) -> None:
        """Delete an object of the kind."""
        await self.namespace.delete(self.resource, name)
