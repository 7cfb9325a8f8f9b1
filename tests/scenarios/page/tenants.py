"""Tenants of a cluster with a page: what each has, and an account that may look at the tenant's namespace."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.cluster.kubectl import kubectl
from tests.scenarios import objects, steps
from tests.scenarios.claims import allocated
from tests.scenarios.objects import PodShape
from tests.scenarios.page.page_process import VIEWER, token_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scenarios.namespaces import Namespace

USER: Final = "page-user"


@dataclass(frozen=True)
class Tenant:
    """One tenant: every name of the tenant's objects contains the name of the namespace."""

    namespace: Namespace
    token: str

    @property
    def name(self) -> str:
        """The name of the namespace."""
        return self.namespace.name

    def object_name(self, suffix: str) -> str:
        """Return the name of one of the tenant's objects: ``train``, ``waits``."""
        return f"{self.name}-{suffix}"

    @classmethod
    async def create(cls, namespace: Namespace, admin: Path) -> Tenant:
        """Create a claim that a pod uses, a claim that a pod waits for, and an account with a token for the page."""
        device_class = await namespace.offer_devices(2)
        found = cls(namespace, await asyncio.to_thread(account, admin, namespace.name))
        for suffix, devices in (("train", 1), ("waits", 4)):
            name = found.object_name(suffix)
            await namespace.create(objects.claim(name, device_class=device_class, devices=devices))
            await namespace.create(objects.pod(name, PodShape(claim=name)))
        await steps.claim_is(namespace, found.object_name("train"), allocated, saying="its pod uses it")
        waiting = found.object_name("waits")
        await steps.pod_is(namespace, waiting, steps.unschedulable, saying="too few devices")
        return found

    async def join(self, number: int) -> str:
        """Create one more pod that uses the claim ``train``; return its name."""
        name = self.object_name(f"joins-{number}")
        await self.namespace.create(objects.pod(name, PodShape(claim=self.object_name("train"))))
        return name


def account(admin: Path, namespace: str) -> str:
    """Create an account that may look at one namespace; return a token of it for the page."""
    kubectl("create", "serviceaccount", USER, f"--namespace={namespace}", kubeconfig=admin)
    role = (f"--clusterrole={VIEWER}", f"--serviceaccount={namespace}:{USER}")
    kubectl("create", "rolebinding", USER, f"--namespace={namespace}", *role, kubeconfig=admin)
    return token_for(admin, USER, namespace=namespace)
