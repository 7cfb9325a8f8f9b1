"""People and controllers with rights of their own: service accounts of a scenario's namespace, as clients use them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.cluster import kubeconfig
from tests.scenarios import api as kubernetes
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from tests.scenarios.api import Api, Json
    from tests.scenarios.namespaces import Namespace
    from tests.scenarios.target import Target

RBAC: Final = "rbac.authorization.k8s.io"

EDIT: Final = "edit"
"""The role of Kubernetes that tenants have in their namespace: they may write claims, and not their status."""

EVERYBODY: Final = {"authorization.k8s.io", "authentication.k8s.io"}
"""The groups in which every authenticated user may do something."""


async def create(
    target: Target,
    namespace: Namespace,
    name: str,
    *,
    in_namespace: Iterable[str] = (),
    everywhere: Iterable[str] = (),
    rules: Iterable[Json] = (),
) -> Path:
    """Make a service account with ClusterRoles, in its namespace or everywhere, and rules; return its kubeconfig."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
    full_name = f"{namespace.name}-{name}"
    await namespace.create(_object(SERVICE_ACCOUNTS.api_version, SERVICE_ACCOUNTS.kind, name))
    for role in in_namespace:
        await namespace.create(_binding(ROLE_BINDINGS.kind, f"{name}-{role}", role, subject))
    for role in everywhere:
        await namespace.create(_binding(CLUSTER_ROLE_BINDINGS.kind, f"{full_name}-{role}", role, subject))
    if own := [*rules]:
        await namespace.create(_object(CLUSTER_ROLES.api_version, CLUSTER_ROLES.kind, full_name, rules=own))
        await namespace.create(_binding(CLUSTER_ROLE_BINDINGS.kind, full_name, full_name, subject))
    path = target.folder.path / f"{full_name}.kubeconfig"
    return await asyncio.to_thread(
        kubeconfig.for_service_account, path, admin=target.admin, namespace=namespace.name, name=name
    )


@asynccontextmanager
async def acting(path: Path, namespace: Namespace) -> AsyncIterator[Api]:
    """Yield a client of the account, once the API server knows its rights."""
    async with kubernetes.connect(path) as client:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace.name},
        }

        async def granted() -> bool:
            found = await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
            groups = {group for rule in found["status"]["resourceRules"] for group in rule["apiGroups"]}
            return bool(groups - EVERYBODY)

        await eventually(granted, saying=f"{path.stem} has its rights")
        yield client


def _object(api_version: str, kind: str, name: str, **content: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def _binding(kind: str, name: str, role: str, subject: Json) -> Json:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return _object(f"{RBAC}/v1", kind, name, roleRef=reference, subjects=[subject])
