"""The rights that a kustomization grants, one by one, and a service account that has all of them but some.

A ``Right`` is one verb on one resource. The probe's roles are copies under names of its own: the installed ones are not
touched, so that a killed run leaves nothing behind that is too narrow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import kubeconfig
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.installation import KUSTOMIZATION, NAMESPACE
from tests.scenarios.resources import SERVICE_ACCOUNTS

PROBE: Final = "dra-reserve-probe"
FOR_OTHERS: Final = frozenset({"release-rights.yaml", "user-roles.yaml"})
"""What the controller is not granted: roles for controllers of workloads, and for people."""

RBAC: Final = "rbac.authorization.k8s.io"
_KINDS: Final = (
    (f"/apis/{RBAC}/v1", "ClusterRole"),
    (f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}", "Role"),
)


@dataclass(frozen=True, kw_only=True, order=True)
class Right:
    """One verb on one resource: everywhere, or only in the namespace of the installation."""

    resource: str
    group: str = ""
    verb: str
    name: str = ""
    everywhere: bool = True

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}:{self.verb}" if self.group else f"{self.resource}:{self.verb}"

    @property
    def rule(self) -> Json:
        """The rule that grants it and nothing else."""
        named = {"resourceNames": [self.name]} if self.name else {}
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb], **named}

    @property
    def attributes(self) -> Json:
        """What an access review asks for it."""
        resource, _, subresource = self.resource.partition("/")
        where = {} if self.everywhere else {"namespace": NAMESPACE}
        asked = {"verb": self.verb, "group": self.group, "resource": resource, "name": self.name, **where}
        return asked | ({"subresource": subresource} if subresource else {})


def granted(*folders: Path) -> frozenset[Right]:
    """Return all rights that folders of manifests grant to a component, by default those of the controller."""
    found = (file for folder in folders or (KUSTOMIZATION,) for file in folder.rglob("*.yaml"))
    files = (file for file in found if file.name not in FOR_OTHERS)
    documents = (obj for file in files for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")))
    roles = (obj for obj in documents if obj.get("kind") in {"Role", "ClusterRole"})
    return frozenset(right for role in roles for rule in role.get("rules", ()) for right in _rights(role, rule))


def _rights(role: Json, rule: Json) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", ("",)):
                    everywhere = role["kind"] == "ClusterRole"
                    yield Right(resource=resource, group=group, verb=verb, name=name, everywhere=everywhere)


class Probe:
    """The service account with the roles of its own."""

    def __init__(self, api: Api, *folders: Path) -> None:
        self._api: Final = api
        self._granted: Final = granted(*folders)

    async def create(self) -> None:
        """Make it, without any right."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": PROBE}}
        await self._api.create(account, namespace=NAMESPACE)
        for root, role in _KINDS:
            await self._put(root, role, {"rules": []})
            subject = {"kind": "ServiceAccount", "name": PROBE, "namespace": NAMESPACE}
            binding = {"roleRef": {"apiGroup": RBAC, "kind": role, "name": PROBE}, "subjects": [subject]}
            await self._put(root, f"{role}Binding", binding)

    async def delete(self) -> None:
        """Remove all of it."""
        for root, role in _KINDS:
            for kind in (f"{role}Binding", role):
                await self._api.request("DELETE", f"{root}/{kind.lower()}s/{PROBE}")
        await self._api.delete(SERVICE_ACCOUNTS, PROBE, namespace=NAMESPACE)

    async def may_all_but(self, *missing: Right) -> None:
        """Grant all rights but these, and wait until the API server heeds it."""
        rights = self._granted - set(missing)
        for root, role in _KINDS:
            rules = [right.rule for right in sorted(rights) if right.everywhere is (role == "ClusterRole")]
            await self._put(root, role, {"rules": rules})
        await asyncio.gather(*(self._heeded(right, granted=right in rights) for right in self._granted))

    def kubeconfig(self, admin: Path, folder: Path) -> Path:
        """Return a kubeconfig for it."""
        path = folder / f"{PROBE}.kubeconfig"
        return kubeconfig.for_service_account(path, admin=admin, namespace=NAMESPACE, name=PROBE)

    async def _heeded(self, right: Right, *, granted: bool) -> None:
        await eventually(
            lambda: self._may(right),
            until=lambda may: may is granted,
            saying=f"{right} is {'granted' if granted else 'taken away'}",
        )

    async def _may(self, right: Right) -> bool:
        spec = {"user": f"system:serviceaccount:{NAMESPACE}:{PROBE}", "resourceAttributes": right.attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        allowed: bool = answer["status"]["allowed"]
        return allowed

    async def _put(self, root: str, kind: str, content: Json) -> None:
        obj: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": PROBE}, **content}
        path = f"{root}/{kind.lower()}s/{PROBE}"
        query = {"fieldManager": "scenario", "force": "true"}
        await self._api.request("PATCH", path, obj, query=query, content_type="application/apply-patch+yaml")
