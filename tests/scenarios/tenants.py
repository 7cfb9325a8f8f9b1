"""What a tenant tries who has `edit` in one namespace: a table of rows, each with how it must end.

The victim is in another namespace: a claim that is reserved for a Job, and pods that use it. A row is refused by the
API server, with a status that is named, or it is harmless: then it must not be noticed where the victim is, nor break
the tenant's own namespace. `test_tenants` plays all rows at once and looks at the victim then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.scenarios import objects, steps
from tests.scenarios.api import Api, Json, Patch
from tests.scenarios.eventually import eventually
from tests.scenarios.installation import LEASE, NAMESPACE, SERVICE_ACCOUNT
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import FORCE_RELEASE, RESERVED_FOR, RESERVED_FOR_UID, PodShape
from tests.scenarios.resources import CLAIMS, DEVICE_TAINT_RULES, LEASES, PODS, RESOURCE_SLICES, Resource

ROLES: Final = Resource("rbac.authorization.k8s.io/v1", "Role", "roles")
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

WORKERS: Final = 250
"""Gated pods with which the tenant tries to keep the controller busy."""

CLAIMS_AT_ONCE: Final = 150
"""Claims each of which is worth an Event."""

TOUCHES: Final = 300


@dataclass(kw_only=True)
class Stage:
    """Both namespaces. The tenant's own claim `mine` is allocated, and its pod `user` uses it."""

    tenant: Api
    own: Namespace
    other: Namespace
    devices: str
    job: Json
    """The victim's Job, for which its claim `shared` is reserved."""
    worker: Json
    """One of the victim's pods."""

    async def claim(self, name: str, **annotations: str) -> Json:
        """Create a claim as the tenant does."""
        claim = objects.claim(name, device_class=self.devices)
        claim["metadata"]["annotations"] = {KEYS[key]: value for key, value in annotations.items()}
        return await self.tenant.create(claim, namespace=self.own.name)

    async def patch(
        self,
        claim: str,
        patch: Json,
        *,
        where: Namespace | None = None,
        status: bool = False,
        kind: Patch = "merge-patch",
    ) -> None:
        """Change a claim as the tenant does."""
        namespace = (where or self.own).name
        part = "status" if status else None
        await self.tenant.patch(CLAIMS, claim, patch, namespace=namespace, subresource=part, kind=kind)


KEYS: Final = {
    "reserved_for": RESERVED_FOR,
    "uid": RESERVED_FOR_UID,
    "force": FORCE_RELEASE,
    "pre_list": objects.PRE_LIST,
    "entered": "reserve.dra/entered-allocation",
    "any_pod": "reserve.dra/reserved-for-any-pod",
    "note": "example.com/note",
}

Play = Callable[[Stage], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One attempt; refused with a status, or harmless."""

    name: str
    play: Play
    refused: int | None = None


def request(method: str, path: str, body: Json | None = None) -> Play:
    """Send one request; the path may name {own} and {other}."""

    async def play(stage: Stage) -> None:
        where = {"own": stage.own.name, "other": stage.other.name}
        merge = "application/merge-patch+json" if method == "PATCH" else "application/json"
        await stage.tenant.request(method, path.format(**where), body, content_type=merge)

    return play


def annotated(**annotations: str | None) -> Play:
    """Change annotations of the tenant's own claim."""
    patch = {"metadata": {"annotations": {KEYS[key]: value for key, value in annotations.items()}}}
    return lambda stage: stage.patch("mine", patch)


def created(name: str, **annotations: str) -> Play:
    """Create a claim with annotations."""
    return lambda stage: stage.claim(name, **annotations)


# Somebody else's claim, directly:

ANOTHERS: Final = f"{CLAIMS.path(namespace='{other}')}/shared"
MARK: Final[Json] = {"metadata": {"annotations": {FORCE_RELEASE: "any"}}}
FREE: Final[Json] = {"status": {"allocation": None, "reservedFor": None}}

DIRECTLY: Final = (
    Row(name="read-anothers-claim", play=request("GET", ANOTHERS), refused=403),
    Row(name="list-all-claims", play=request("GET", CLAIMS.path()), refused=403),
    Row(name="watch-anothers-events", play=request("GET", "/api/v1/namespaces/{other}/events"), refused=403),
    Row(name="delete-anothers-claim", play=request("DELETE", ANOTHERS), refused=403),
    Row(name="force-anothers-release", play=request("PATCH", ANOTHERS, MARK), refused=403),
    Row(name="free-anothers-claim", play=request("PATCH", f"{ANOTHERS}/status", FREE), refused=403),
    Row(
        name="start-a-pod-beside-anothers",
        play=request("POST", "/api/v1/namespaces/{other}/pods", objects.pod("thief", PodShape(claim="shared"))),
        refused=403,
    ),
    Row(name="delete-anothers-pods", play=request("DELETE", "/api/v1/namespaces/{other}/pods"), refused=403),
)


# The controller and what it relies on:

_LEASE: Final = LEASES.path(namespace=NAMESPACE, name=LEASE)
_TOKEN: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}/token"
_RESERVE: Final = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["reserve"]}
_ROLE: Final[Json] = {"apiVersion": ROLES.api_version, "kind": "Role", "metadata": {"name": "r"}, "rules": [_RESERVE]}
_TOKEN_REQUEST: Final[Json] = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"audiences": []},
}
_SLICE: Final = objects.resource_slice("fake", driver="fake.example.com", devices=["fake"])


async def _impersonate(stage: Stage) -> None:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "x"}}
    await stage.tenant.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)


INDIRECTLY: Final = (
    Row(
        name="take-the-controllers-lease",
        play=request("PATCH", _LEASE, {"spec": {"holderIdentity": "me"}}),
        refused=403,
    ),
    Row(name="read-the-controllers-lease", play=request("GET", _LEASE), refused=403),
    Row(name="read-the-configuration", play=request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps"), refused=403),
    Row(name="get-the-controllers-token", play=request("POST", _TOKEN, _TOKEN_REQUEST), refused=403),
    Row(name="grant-oneself-the-verb", play=request("POST", ROLES.path(namespace="{own}"), _ROLE), refused=403),
    Row(name="remove-the-policies", play=request("DELETE", f"{POLICIES}/annotations.reserve.dra"), refused=403),
    Row(name="ask-what-others-may-do", play=_impersonate, refused=403),
    Row(name="offer-devices-that-are-none", play=request("POST", RESOURCE_SLICES.path(), _SLICE), refused=403),
    Row(
        name="widen-a-device-class",
        play=request("PATCH", "/apis/resource.k8s.io/v1/deviceclasses/any", {"spec": {"selectors": None}}),
        refused=403,
    ),
    Row(
        name="taint-anothers-device",
        play=request("POST", DEVICE_TAINT_RULES.path(), {}),
        refused=403,
    ),
    Row(
        name="opt-in-to-admin-access",
        play=request(
            "PATCH",
            "/api/v1/namespaces/{own}",
            {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}},
        ),
        refused=403,
    ),
)


# One's own claim, to get at the devices of others: given back while they are used, they would belong to two.


async def _entry_by_hand(stage: Stage) -> None:
    entry = {"resource": "pods", "name": "x", "uid": "x"}
    await stage.patch("mine", {"status": {"reservedFor": [entry]}}, status=True)


async def _anothers_device(stage: Stage) -> None:
    device = {"driver": stage.devices, "pool": f"{stage.other.name}-shared", "device": "device-0", "request": "device"}
    await stage.claim("stolen")
    await stage.patch("stolen", {"status": {"allocation": {"devices": {"results": [device]}}}}, status=True)


async def _admin_access(stage: Stage) -> None:
    claim = objects.claim("watching", device_class=stage.devices)
    claim["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    await stage.tenant.create(claim, namespace=stage.own.name)


ON_ONES_OWN: Final = (
    Row(name="write-ones-own-list", play=_entry_by_hand, refused=403),
    Row(name="allocate-anothers-device-by-hand", play=_anothers_device, refused=403),
    Row(name="use-all-devices-as-admin", play=_admin_access, refused=422),
    Row(name="force-a-release-under-ones-pod", play=annotated(force="any"), refused=403),
    Row(
        name="unprotect-ones-allocated-claim",
        play=lambda stage: stage.patch("mine", {"metadata": {"finalizers": None}}),
        refused=403,
    ),
    Row(name="change-for-whom-it-is", play=annotated(reserved_for="jobs.batch/other"), refused=403),
    Row(name="take-the-reference-off", play=annotated(reserved_for=None), refused=403),
    Row(name="forge-what-the-controller-remembers", play=annotated(entered="0", any_pod="true"), refused=403),
    Row(name="delete-ones-claim-under-ones-pod", play=request("DELETE", f"{CLAIMS.path(namespace='{own}')}/mine")),
)


# References to what is not one's own:


async def _job_of_another(stage: Stage) -> None:
    """The uid is right, the namespace is another one: the controller looks in the claim's."""
    await stage.claim(
        "by-uid", reserved_for=f"jobs.batch/{stage.job['metadata']['name']}", uid=stage.job["metadata"]["uid"]
    )
    await stage.tenant.create(objects.pod("by-uid", PodShape(claim="by-uid", gated=True)), namespace=stage.own.name)
    await steps.told(stage.own, "by-uid", "WorkloadGone")


async def _claim_of_anothers_pod(stage: Stage) -> None:
    """As if it had been made from a template for a pod of somebody else."""
    claim = objects.claim("generated", device_class=stage.devices)
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": stage.worker["metadata"]["name"],
        "uid": stage.worker["metadata"]["uid"],
    }
    claim["metadata"] |= {
        "ownerReferences": [owner | {"controller": True}],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "device"},
    }
    await stage.tenant.create(claim, namespace=stage.own.name)


async def _pod_that_names_anothers_claim(stage: Stage) -> None:
    """Of the same name; there is none in the tenant's namespace."""
    await stage.tenant.create(objects.pod("hopeful", PodShape(claim="shared", gated=True)), namespace=stage.own.name)
    await steps.pod_is(stage.own, "hopeful", lambda pod: not steps.gates(pod), saying="our gate does not hold it")
    pod = await stage.own.get(PODS, "hopeful")
    assert "nodeName" not in pod["spec"]


async def _secrets(stage: Stage) -> None:
    """What the controller says must not depend on what is there."""
    notes = []
    for name, reference in {
        "is-there": f"serviceaccounts/{SERVICE_ACCOUNT}",
        "is-not": "serviceaccounts/nobody",
    }.items():
        await stage.claim(name, reserved_for=reference)
        notes.append((await steps.note(stage.own, name, "WorkloadUnreadable")).replace(reference, "X"))
    assert notes[0] == notes[1]


async def _template(stage: Stage) -> None:
    template = objects.claim_template("t", device_class=stage.devices)
    template["spec"]["metadata"] = {"annotations": {RESERVED_FOR: "kube-system/jobs.batch/x"}}
    await stage.tenant.create(template, namespace=stage.own.name)


REFERENCES: Final = (
    Row(
        name="reserve-for-anothers-job-by-name", play=created("a", reserved_for="kube-system/jobs.batch/x"), refused=422
    ),
    Row(name="reserve-for-a-node", play=created("b", reserved_for="nodes/node-000"), refused=422),
    Row(name="reserve-by-a-path", play=created("c", reserved_for="jobs.batch/../../secrets"), refused=422),
    Row(name="reserve-for-anothers-job-by-template", play=_template, refused=422),
    Row(name="reserve-for-anothers-job-by-uid", play=_job_of_another),
    Row(name="pass-a-claim-off-as-anothers-pods", play=_claim_of_anothers_pod),
    Row(name="name-anothers-claim-in-a-pod", play=_pod_that_names_anothers_claim),
    Row(name="ask-the-controller-what-is-there", play=_secrets),
)


# Keeping the controller busy:


async def _fill_the_window(stage: Stage) -> None:
    """Gated pods that never get a node, on a claim that is allocated."""
    shape = PodShape(claim="mine", gated=True, spec=steps.UNSCHEDULABLE, annotations={objects.PRE_LIST: "true"})
    await stage.tenant.create_all(objects.pods("filler", WORKERS, shape), namespace=stage.own.name)


async def _flood_events(stage: Stage) -> None:
    """Each claim is worth one, and worth it once."""
    claims = [
        objects.claim(f"noise-{n}", device_class=stage.devices, reserved_for=f"jobs.batch/none-{n}")
        for n in range(CLAIMS_AT_ONCE)
    ]
    await stage.tenant.create_all(claims, namespace=stage.own.name)


async def _touch_a_claim(stage: Stage) -> None:
    """Every change is looked at; many at once are looked at once."""
    await stage.claim("touched", reserved_for="jobs.batch/none")
    for number in range(TOUCHES):
        await stage.patch("touched", {"metadata": {"annotations": {"example.com/n": str(number)}}})


async def _huge_notes(stage: Stage) -> None:
    for number in range(10):
        await stage.claim(f"huge-{number}", note="x" * 200_000, uid="x" * 50_000)


async def _gates_for_nothing(stage: Stage) -> None:
    pods = objects.pods("idle", 20, PodShape(gated=True))
    await stage.tenant.create_all(pods, namespace=stage.own.name)
    names = {pod["metadata"]["name"] for pod in pods}
    await eventually(
        lambda: stage.own.all(PODS),
        until=lambda found: not any(steps.gates(pod) for pod in found if pod["metadata"]["name"] in names),
        saying="who has no claim has nothing to wait for",
    )


async def _come_and_go(stage: Stage) -> None:
    """Claims that are made and deleted at once."""

    async def one(number: int) -> None:
        await stage.claim(f"brief-{number}", reserved_for="jobs.batch/none")
        await stage.tenant.delete(CLAIMS, f"brief-{number}", namespace=stage.own.name)

    await asyncio.gather(*map(one, range(40)))


BUSY: Final = (
    Row(name="fill-the-window", play=_fill_the_window),
    Row(name="flood-events", play=_flood_events),
    Row(name="touch-a-claim-all-the-time", play=_touch_a_claim),
    Row(name="write-huge-notes", play=_huge_notes),
    Row(name="write-a-huge-reference", play=created("d", reserved_for="x" * 200_000), refused=422),
    Row(name="wait-behind-our-gate-for-nothing", play=_gates_for_nothing),
    Row(name="make-and-delete-claims", play=_come_and_go),
)

ROWS: Final = (*DIRECTLY, *INDIRECTLY, *ON_ONES_OWN, *REFERENCES, *BUSY)
