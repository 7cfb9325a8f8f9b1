"""deploy/policies/guards.yaml: who may change what keeps a claim, tried on a real API server.

All scenarios run with these policies on, stock components included. Here is what they are for: each row is a write that
roles alone would let pass, or refuse too much.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios import accounts, installation, objects, steps
from tests.scenarios import api as kubernetes
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import FORCE_RELEASE, PRE_LIST, RESERVED_FOR, WHEN_SUSPENDED
from tests.scenarios.resources import ADMISSION_POLICIES, CLAIM_TEMPLATES, CLAIMS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.ALONGSIDE), pytest.mark.needs(Capability.RIGHTS)]

PROTECTION: Final = "resource.kubernetes.io/delete-protection"
GROUP: Final = "resource.k8s.io"
STATUS: Final = {"apiGroups": [GROUP], "resources": ["resourceclaims/status"], "verbs": ["get", "patch", "update"]}
BINDING: Final = {"apiGroups": [GROUP], "resources": ["resourceclaims/binding"], "verbs": ["patch", "update"]}
READ: Final = {"apiGroups": [GROUP], "resources": ["resourceclaims"], "verbs": ["get", "list"]}

OWN: Final = {"apiGroup": "example.com", "resource": "shoals", "name": "llm", "uid": "uid-of-llm"}
GUARD: Final = {"apiGroup": "reserve.dra", "resource": "guards", "name": "shared", "uid": "uid-of-a-guard"}
JOB: Final = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "uid-of-train"}
POD: Final = {"resource": "pods", "name": "worker", "uid": "uid-of-worker"}


@dataclass
class Place:
    """A claim that is allocated and listed for several, and those who try to change it."""

    namespace: Namespace
    admin: Api
    tenant: Api
    """Has the role `edit` in the namespace."""
    writer: Api
    """May write lists, as somebody has granted it once."""
    owner: Api
    """The controller of shoals, with the role that is shipped."""
    controller: Api
    """Ours."""
    pod: str
    """The uid of a pod that is there: entries of others would be taken off by the stock controller."""

    def _known(self, patch: Json) -> Json:
        text: Json = json.loads(json.dumps(patch).replace(POD["uid"], self.pod))
        return text

    async def reset(self) -> Json:
        """Bring the claim back to what each row begins with."""
        claim = await self.namespace.find(CLAIMS, "shared")
        if claim is None or "allocation" not in claim.get("status", {}):
            raise AssertionError(f"the claim is gone, or free: {claim}")
        await self.namespace.patch(
            CLAIMS,
            "shared",
            {"metadata": {"annotations": {RESERVED_FOR: "jobs.batch/train"}, "finalizers": [PROTECTION]}},
        )
        listed = self._known({"reservedFor": [OWN, GUARD, JOB, POD]})
        return await self.namespace.patch_status(CLAIMS, "shared", listed)

    async def patch(self, who: Api, patch: Json, *, status: bool = False, kind: str = "merge-patch") -> Json:
        """Change the claim."""
        return await who.patch(
            CLAIMS,
            "shared",
            self._known(patch),
            namespace=self.namespace.name,
            subresource="status" if status else None,
            kind=kind,  # type: ignore[arg-type]
        )


@pytest.fixture
async def place(target: Target, api: Api, namespace: Namespace) -> AsyncIterator[Place]:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/train"))
    await steps.allocate(namespace, "shared", devices=devices, pool=f"{namespace.name}-shared")
    waits = {"schedulingGates": [{"name": "example.com/for-ever"}]}
    pod = await namespace.create(objects.pod(POD["name"], objects.PodShape(claim="shared", spec=waits)))
    reserve_shoals = {"apiGroups": ["example.com"], "resources": ["shoals"], "verbs": ["reserve"]}
    paths = await asyncio.gather(
        accounts.create(target, namespace, "tenant", in_namespace=[accounts.EDIT]),
        accounts.create(target, namespace, "writer", rules=[READ, STATUS, BINDING]),
        accounts.create(target, namespace, "owner", everywhere=["dra-reserve-release"], rules=[reserve_shoals]),
    )
    async with (
        accounts.acting(paths[0], namespace) as tenant,
        accounts.acting(paths[1], namespace) as writer,
        accounts.acting(paths[2], namespace) as owner,
        kubernetes.connect(target.controller) as controller,
    ):
        yield Place(namespace, api, tenant, writer, owner, controller, pod["metadata"]["uid"])


def annotations(**values: str | None) -> Json:
    """A patch of annotations of ours; names as in `KEYS`."""
    return {"metadata": {"annotations": {KEYS[key]: value for key, value in values.items()}}}


KEYS: Final = {
    "reserved_for": RESERVED_FOR,
    "force": FORCE_RELEASE,
    "pre_list": PRE_LIST,
    "when_suspended": WHEN_SUSPENDED,
    "entered": "reserve.dra/entered-allocation",
    "other": "example.com/note",
}


def without(*gone: Json) -> Json:
    """A strategic merge patch that takes entries off the list, as schedulers and owners send it."""
    return {"status": {"reservedFor": [{"$patch": "delete", "uid": entry["uid"]} for entry in gone]}}


def beside(*more: Json) -> Json:
    """A strategic merge patch that adds entries."""
    return {"status": {"reservedFor": [*more]}}


FREED: Final = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
ANOTHER: Final = {**OWN, "name": "next", "uid": "uid-of-next"}

LATER: Final = "is set when the claim is created; .* may not change it later"
FORCED: Final = "may not release it by force"
UNPROTECTED: Final = "may not take finalizer"
FOREIGN: Final = "is written by the controller of .* alone"
LIMITED: Final = "holds the role dra-reserve-release"
NAMELESS: Final = "names no object in namespace"

ROWS: Final = [
    # who, patch, subresource, refused with
    ("tenant", annotations(reserved_for="jobs.batch/other"), "", LATER, "tenant-changes-the-reference"),
    ("tenant", annotations(reserved_for=None), "", LATER, "tenant-takes-the-reference-off"),
    ("tenant", annotations(pre_list="true"), "", LATER, "tenant-asks-for-pre-listing-later"),
    ("tenant", annotations(entered="0123456789abcdef"), "", LATER, "tenant-forges-our-mark"),
    ("tenant", annotations(force="any"), "", FORCED, "tenant-forces-a-release"),
    ("tenant", {"metadata": {"finalizers": None}}, "", UNPROTECTED, "tenant-takes-the-finalizer-off"),
    ("tenant", annotations(when_suspended="release"), "", None, "tenant-lets-a-suspended-workload-release"),
    ("tenant", annotations(when_suspended="keep", pre_list="true"), "", LATER, "tenant-changes-another-one-beside"),
    ("tenant", annotations(other="x"), "", None, "tenant-notes-something-else"),
    ("tenant", {"metadata": {"labels": {"a": "b"}}}, "", None, "tenant-labels-the-claim"),
    ("tenant", {"metadata": {"finalizers": [PROTECTION, "example.com/x"]}}, "", None, "tenant-adds-a-finalizer"),
    ("tenant", without(OWN), "status", "cannot patch", "tenant-writes-the-list"),
    ("writer", without(OWN), "status", FOREIGN, "writer-takes-an-entry-off"),
    ("writer", without(GUARD), "status", FOREIGN, "writer-takes-the-guard-off"),
    ("writer", without(OWN, JOB), "status", FOREIGN, "writer-takes-several-off"),
    ("writer", beside(ANOTHER), "status", FOREIGN, "writer-adds-an-entry"),
    ("writer", beside({**OWN, "name": "renamed"}), "status", FOREIGN, "writer-renames-an-entry"),
    ("writer", beside({**POD, "apiGroup": "x", "uid": "u"}), "status", FOREIGN, "writer-adds-pods-of-another-group"),
    ("writer", FREED, "status", FOREIGN, "writer-gives-the-devices-away"),
    ("writer", beside({**POD, "name": "b", "uid": "b"}), "status", None, "writer-adds-a-pod-as-schedulers-do"),
    ("writer", without(POD), "status", None, "writer-takes-a-pod-off-as-schedulers-do"),
    ("owner", without(OWN), "status", None, "owner-takes-its-entry-off"),
    ("owner", without(ANOTHER), "status", None, "owner-takes-off-what-is-not-there"),
    ("owner", beside(ANOTHER), "status", None, "owner-adds-an-entry-of-its-kind"),
    ("owner", without(GUARD), "status", FOREIGN, "owner-takes-the-guard-off"),
    ("owner", without(JOB), "status", FOREIGN, "owner-takes-a-jobs-entry-off"),
    ("owner", without(OWN, JOB), "status", FOREIGN, "owner-takes-off-more-than-its-own"),
    ("owner", without(OWN, POD), "status", LIMITED, "owner-takes-a-pod-off-as-well"),
    ("owner", beside({**POD, "name": "b", "uid": "b"}), "status", LIMITED, "owner-adds-a-pod"),
    ("owner", FREED, "status", f"{FOREIGN}|{LIMITED}", "owner-gives-the-devices-away"),
    ("owner", beside({**ANOTHER, "name": "kube-system/x"}), "status", NAMELESS, "owner-names-another-namespace"),
    ("controller", without(OWN, GUARD, JOB), "status", None, "ours-takes-entries-off"),
    ("controller", beside({**GUARD, "name": "x/y", "uid": "n1/"}), "status", None, "ours-lists-what-it-needs"),
    ("controller", annotations(entered="0", reserved_for=None), "", None, "ours-writes-its-marks"),
    ("controller", {"metadata": {"finalizers": None}}, "", None, "ours-takes-the-finalizer-off"),
    ("controller", FREED, "status", None, "ours-gives-the-devices-back"),
]  # fmt: skip
"""The last row frees the claim. What two policies refuse is refused in the words of either."""


async def test_each_writes_its_own_and_nothing_else(place: Place) -> None:
    wrong = []
    for who, patch, part, text, name in ROWS:
        await place.reset()
        kind = "strategic-merge-patch" if part and patch is not FREED else "merge-patch"
        said = None
        try:
            await place.patch(getattr(place, who), patch, status=bool(part), kind=kind)
        except ApiError as error:
            said = str(error)
        if not _as_expected(said, text):
            wrong.append(f"{name}: {said}")
    assert not wrong, "\n".join(wrong)


def _as_expected(said: str | None, text: str | None) -> bool:
    return said is None if text is None else said is not None and re.search(text, said) is not None


Make = Callable[[str], Json]


def _claim(reference: str) -> Json:
    claim = objects.claim("c", device_class="any")
    claim["metadata"]["annotations"] = {RESERVED_FOR: reference}
    return claim


def _template(reference: str) -> Json:
    template = objects.claim_template("c", device_class="any")
    template["spec"]["metadata"] = {"annotations": {RESERVED_FOR: reference}}
    return template


UNREADABLE: Final = r"which is not of the form RESOURCE\[\.GROUP\]/NAME"
NOWHERE: Final = "which is in no namespace"


@pytest.mark.parametrize("make", [_claim, _template], ids=["claim", "template"])
async def test_a_reference_names_an_object_in_the_namespace_of_the_claim(
    api: Api, namespace: Namespace, make: Make
) -> None:
    async def created(reference: str) -> str | None:
        obj = make(reference)
        resource = CLAIMS if obj["kind"] == CLAIMS.kind else CLAIM_TEMPLATES
        try:
            await api.request("POST", resource.path(namespace=namespace.name), obj, query={"dryRun": "All"})
        except ApiError as error:
            return f"{error.status}: {error}"
        return None

    for fine in ("jobs.batch/train", "pods/x", "shoals.a.b.example.com/a.b", f"jobs.batch/{'x' * 253}"):
        assert await created(fine) is None
    for wrong in (
        "",
        "train",
        "kube-system/jobs.batch/train",
        "Jobs/train",
        "jobs.batch/../x",
        "x" * 100_000,
        "jobs/\n",
    ):
        assert _as_expected(await created(wrong), UNREADABLE), wrong[:50]
    for cluster_scoped in ("nodes/node-000", "namespaces/kube-system", "deviceclasses.resource.k8s.io/gpu"):
        assert _as_expected(await created(cluster_scoped), NOWHERE)


async def test_every_kind_of_kubernetes_without_a_namespace_is_refused_by_name(
    target: Target, namespace: Namespace
) -> None:
    shown = kubectl("api-resources", "--namespaced=false", "--output=name", kubeconfig=target.admin)
    reviews = {
        "selfsubjectreviews",
        "tokenreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    }
    for name in shown.split():
        if name.partition(".")[0] in reviews or not (name.endswith(".k8s.io") or "." not in name):
            continue
        with pytest.raises(ApiError, match=NOWHERE):
            await namespace.create(_claim(f"{name}/x"))


async def test_what_a_claim_controller_makes_from_a_template_is_never_refused_and_a_tenants_claim_is(
    place: Place,
) -> None:
    """Anybody may write that a controller owns the claim."""
    claim = _claim("nodes/node-000")
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    ]
    path, query = CLAIMS.path(namespace=place.namespace.name), {"dryRun": "All"}
    await place.admin.request("POST", path, claim, query=query)
    with pytest.raises(ApiError, match=NOWHERE):
        await place.tenant.request("POST", path, claim, query=query)


async def test_the_api_server_finds_nothing_to_warn_of_in_the_policies(api: Api) -> None:
    async def checked() -> list[Json]:
        return [each for each in await api.all(ADMISSION_POLICIES) if each["metadata"]["name"].endswith(".reserve.dra")]

    found = await eventually(
        checked,
        until=lambda them: len(them) >= 3 and all("typeChecking" in each.get("status", {}) for each in them),
        within=60,
        saying="their types are checked",
    )
    warnings = [each["status"]["typeChecking"].get("expressionWarnings") for each in found]
    assert not any(warnings), json.dumps(warnings, indent=1)


async def _quickest(write: Callable[[], Awaitable[object]], *, times: int = 12) -> float:
    """Return milliseconds for the quickest of some writes: the others waited for something else."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        await write()
        found.append(time.perf_counter() - began)
    return 1000 * min(found)


@pytest.mark.long
async def test_the_dearest_list_is_within_the_budget_and_everyday_writes_cost_next_to_nothing(
    target: Target, place: Place, remark: Callable[[str], None]
) -> None:
    full = [{**OWN, "name": f"{'n' * 249}{number:04}", "uid": f"{'u' * 32}{number:04}"} for number in range(256)]
    others = [{**each, "uid": each["uid"].upper()} for each in full]
    tombstones = [
        {**GUARD, "resource": "finishedpods", "name": f"pod-{n}", "uid": f"uid-of-pod-{n}"} for n in range(254)
    ]
    pods = [{**POD, "name": f"pod-{n}", "uid": f"uid-of-pod-{n}"} for n in range(254)]
    turns = itertools.cycle([others, full])
    sizes = itertools.cycle([253, 254])
    pod = {**POD, "uid": "uid-of-a-joiner"}

    async def exchange() -> None:
        await place.patch(place.owner, {"status": {"reservedFor": next(turns)}}, status=True)

    async def join(listed: list[Json]) -> None:
        await place.patch(place.writer, {"status": {"reservedFor": [*listed, pod]}}, status=True)
        await place.patch(place.writer, {"status": {"reservedFor": listed}}, status=True)

    async def add() -> None:
        await place.patch(place.controller, {"status": {"reservedFor": tombstones[: next(sizes)]}}, status=True)

    async def measure() -> dict[str, float]:
        await place.namespace.patch_status(CLAIMS, "shared", {"reservedFor": full})
        found = {"256 entries of the longest names exchanged, by their owner": await _quickest(exchange)}
        await place.namespace.patch_status(CLAIMS, "shared", {"reservedFor": tombstones})
        found["a pod joins 254 tombstones and leaves, by a scheduler"] = await _quickest(partial(join, tombstones))
        await place.namespace.patch_status(CLAIMS, "shared", {"reservedFor": pods})
        found["a pod joins 254 pods and leaves, by a scheduler"] = await _quickest(partial(join, pods))
        await place.namespace.patch_status(CLAIMS, "shared", {"reservedFor": tombstones})
        found["the 254th tombstone, by our controller"] = await _quickest(add)
        return found

    costs = await measure()
    await asyncio.to_thread(installation.unguard, target.admin)
    try:
        bare = await measure()
    finally:
        await asyncio.to_thread(installation.guard, target.admin)
    for what, cost in costs.items():
        remark(f"guards.yaml: {cost:.1f} ms instead of {bare[what]:.1f} ms: {what}")


async def test_a_plugin_writes_of_claims_the_status_of_its_own_devices_there_even_if_it_is_granted_more(
    target: Target, namespace: Namespace
) -> None:
    await asyncio.to_thread(installation.install, target.admin, kustomization=installation.PLUGIN_KUSTOMIZATION)
    account = f"system:serviceaccount:{installation.PLUGIN_NAMESPACE}:{installation.PLUGIN_SERVICE_ACCOUNT}"
    drivers = {"apiGroups": [GROUP], "resources": ["resourceclaims/driver"], "verbs": ["*"]}
    everything = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}
    name = f"{namespace.name}-granted-too-much"
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    await namespace.create({**rbac, "kind": "ClusterRole", "rules": [everything, drivers]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": account, "apiGroup": "rbac.authorization.k8s.io"}]
    await namespace.create({**rbac, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    devices = "cpu.reserve.dra"
    for claim, node in {"here": "node-000", "there": "node-001"}.items():
        await namespace.create(objects.claim(claim, device_class=devices))
        await steps.allocate(namespace, claim, devices=devices, pool=node, node=node)
    path = await asyncio.to_thread(installation.plugin_kubeconfig, target.admin, target.folder.path, node="node-000")
    async with accounts.acting(path, namespace) as plugin:

        async def said(claim: str, patch: Json, *, part: str | None = "status") -> str:
            try:
                await plugin.patch(CLAIMS, claim, patch, namespace=namespace.name, subresource=part)
            except ApiError as error:
                return str(error)
            return ""

        def reported(pool: str) -> Json:
            return {
                "status": {"devices": [{"driver": devices, "pool": pool, "device": "device-0", "data": {"a": "b"}}]}
            }

        elsewhere = "its devices are not on that node"
        await eventually(
            lambda: said("there", reported("node-001")), until=lambda text: elsewhere in text, saying="it is in force"
        )
        assert await said("here", reported("node-000")) == ""
        assert "except for the status of devices" in await said("here", FREED)
        assert "except for the status of devices" in await said("here", {"metadata": {"finalizers": None}}, part=None)
