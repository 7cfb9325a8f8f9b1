"""Finds the permissions that a user has or lacks, and builds the manifest that grants the missing permissions.

A SubjectAccessReview answers for any user; creating one needs a permission of its own (``system:auth-delegator``, or an
administrator). Without it, a user can still review their own permissions, and impersonate the account with kubectl's
``--as``.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from dra.api.rbac import CLUSTER_ROLE_RULES, NAMESPACE, NAMESPACE_ROLE_RULES, Permission, RolePurpose, permissions
from dra.kube.client import Client
from dra.kube.resources import SELF_SUBJECT_ACCESS_REVIEWS, SUBJECT_ACCESS_REVIEWS
from dra.model.meta import Struct

_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_ROLE_NAME_PREFIX: Final = "dra-reserve-missing-rights"
"""Prefix of the names of granted roles.

The rest is a hash of the rules and the subject: with equal names, `kubectl apply` would take back what a role granted
before, to another account or for another mode.
"""


class _ReviewStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedUser:
    """A user whose permissions are reviewed; without a name, the user who runs the command."""

    name: str = ""

    @property
    def account(self) -> tuple[str, str] | None:
        """The (namespace, name) of a service account; None for other users."""
        namespace, colon, name = self.name.removeprefix(_ACCOUNT_PREFIX).partition(":")
        return (namespace, name) if self.name.startswith(_ACCOUNT_PREFIX) and colon else None

    @property
    def groups(self) -> list[str]:
        """The groups that the API server adds to this user."""
        account = self.account
        of_accounts = [] if account is None else ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
        return [*of_accounts, "system:authenticated"]

    def __str__(self) -> str:
        return self.name or "you"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPermissions:
    """Permissions that a user lacks, by purpose."""

    cluster: dict[RolePurpose, list[Permission]]
    namespaced: list[Permission]
    namespace: str = NAMESPACE

    def __bool__(self) -> bool:
        return bool(self.namespaced) or any(self.cluster.values())


def needed_purposes(*, replace: bool, koordinator: bool = False) -> tuple[RolePurpose, ...]:
    """Return the purposes for which a controller in that mode needs permissions.

    `koordinator`: the value of that option; all others have their defaults.
    """
    needed = [RolePurpose.CLAIMS, RolePurpose.WORKLOADS, RolePurpose.EVICTION]
    needed += [RolePurpose.GENERATION] if replace else []
    needed += [RolePurpose.KOORDINATOR] if koordinator else []
    return tuple(needed)


async def find_missing_permissions(
    client: Client, identity: ReviewedUser, wanted: Iterable[RolePurpose], *, namespace: str
) -> MissingPermissions:
    """Review each permission separately; raise ApiError."""
    cluster = [(purpose, right) for purpose in wanted for right in permissions(CLUSTER_ROLE_RULES[purpose])]
    own = list(permissions(NAMESPACE_ROLE_RULES))
    answers = await asyncio.gather(
        *(_is_allowed(client, identity, right, namespace="") for _, right in cluster),
        *(_is_allowed(client, identity, right, namespace=namespace) for right in own),
    )
    lacking: dict[RolePurpose, list[Permission]] = defaultdict(list)
    for (purpose, right), allowed in zip(cluster, answers[: len(cluster)], strict=True):
        if not allowed:
            lacking[purpose].append(right)
    namespaced = [right for right, allowed in zip(own, answers[len(cluster) :], strict=True) if not allowed]
    return MissingPermissions(cluster=dict(lacking), namespaced=namespaced, namespace=namespace)


async def _is_allowed(client: Client, identity: ReviewedUser, right: Permission, *, namespace: str) -> bool:
    plural, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": right.name,
    }
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    if identity.name:
        spec |= {"user": identity.name, "groups": identity.groups}
    review = await client.create(
        SUBJECT_ACCESS_REVIEWS if identity.name else SELF_SUBJECT_ACCESS_REVIEWS, {"spec": spec}, model=_AccessReview
    )
    return review.status.allowed


def rbac_manifest(lacking: MissingPermissions, identity: ReviewedUser) -> str:
    """Return the YAML that grants the missing permissions, and no other."""
    if identity.account is not None:
        namespace, name = identity.account
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    else:
        subject = {"kind": "User", "name": identity.name, "apiGroup": "rbac.authorization.k8s.io"}
    documents = []
    cluster = sorted({right for rights in lacking.cluster.values() for right in rights})
    if cluster:
        documents += _role_with_binding("ClusterRole", cluster, subject)
    if lacking.namespaced:
        documents += _role_with_binding("Role", sorted(lacking.namespaced), subject, namespace=lacking.namespace)
    return yaml.safe_dump_all(documents, sort_keys=False, width=120)


def _role_with_binding(
    kind: str, lacking: Sequence[Permission], subject: dict[str, str], *, namespace: str = ""
) -> list[dict[str, Any]]:
    verbs: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for right in lacking:
        verbs[(right.group, right.resource, right.name)].append(right.verb)
    rules = [
        {
            "apiGroups": [group],
            "resources": [resource],
            **({"resourceNames": [name]} if name else {}),
            "verbs": granted,
        }
        for (group, resource, name), granted in verbs.items()
    ]
    content = yaml.safe_dump([kind, namespace, rules, subject]).encode()
    name = f"{_ROLE_NAME_PREFIX}-{hashlib.sha256(content).hexdigest()[:8]}"
    api = "rbac.authorization.k8s.io"
    where = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **where, "labels": {"app.kubernetes.io/part-of": "dra-reserve"}}
    return [
        {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": {**metadata},
            "roleRef": {"apiGroup": api, "kind": kind, "name": name},
            "subjects": [dict(subject)],
        },
    ]
