"""Playing a script in a namespace: each operation is a few plain requests, and its answer is part of what is compared.

What a request needs to know (uids, names of generated claims) is read from the server at that moment: everything is at
rest then, so that both servers give the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.api import ApiError
from tests.scenarios.claims import allocated, entries, revision
from tests.scenarios.differential import operations as ops
from tests.scenarios.differential import things
from tests.scenarios.resources import CLAIM_TEMPLATES, CLAIMS, NODES, PODS

if TYPE_CHECKING:
    from tests.scenarios.api import Api
    from tests.scenarios.differential.operations import Claim, Operation
    from tests.scenarios.resources import Resource

Json = dict[str, Any]

DONE: Final = "done"
NOTHING: Final = "nothing to do it to"


class Missing(Exception):  # noqa: N818 not an error: the operation has no object
    """What the operation is about is not there."""


class Player:
    """Plays operations in one namespace of one server."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api: Final = api
        self.namespace: Final = namespace
        self.revisions: Final[dict[str, set[str]]] = {PODS.plural: set(), CLAIMS.plural: set()}
        """The resourceVersions that we made ourselves."""

    async def play(self, operation: Operation) -> str:
        """Do it; return how the server took it."""
        try:
            await self._play(operation)
        except Missing:
            return NOTHING
        except ApiError as error:
            return f"{error.status} {error.reason}"
        return DONE

    async def end(self) -> None:
        """Take away the pods: no controller goes on with claims that nobody uses."""
        await self.api.delete_collection(PODS, namespace=self.namespace, grace_seconds=0)

    async def _play(self, operation: Operation) -> None:
        """Each of these knows some of the operations, and leaves the others to the next."""
        match operation:
            case ops.CreatePod():
                await self._create(PODS, things.pod(operation, node=self._node(operation.node)))
            case ops.DeletePod(name, way):
                await self.api.request("DELETE", self._path(PODS, name), things.deletion(way))
            case ops.LetGo(name):
                await self._patch(PODS, name, {"metadata": {"finalizers": None}})
            case ops.Run(pod):
                await self._patch_status(PODS, pod, things.running("True"))
            case ops.LoseSandbox(pod):
                await self._patch_status(PODS, pod, things.running("False"))
            case ops.Finish(pod, phase):
                await self._patch_status(PODS, pod, {"phase": phase})
            case ops.CreateNode(name):
                await self._create(NODES, things.node(self._node(name)))
            case ops.Cordon(name):
                await self.api.patch(NODES, self._node(name), {"spec": {"unschedulable": True}})
            case ops.DeleteNode(name):
                await self.api.request("DELETE", NODES.path(name=self._node(name)))
            case _:
                await self._make_claims(operation)

    async def _make_claims(self, operation: Operation) -> None:
        match operation:
            case ops.CreateClaim(name):
                await self._create(CLAIMS, things.claim(name))
            case ops.DeleteClaim(which):
                await self.api.request("DELETE", self._path(CLAIMS, await self._name(which)))
            case ops.CreateTemplate(name, content):
                await self._create(CLAIM_TEMPLATES, things.template(name, content))
            case ops.DeleteTemplate(name):
                await self.api.request("DELETE", self._path(CLAIM_TEMPLATES, name))
            case ops.PointElsewhere(pod, entry, name):
                status = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": name}]}
                await self._patch_status(PODS, pod, status)
            case ops.Orphan(pod, entry):
                owner = await self._get(PODS, pod)
                await self._create(CLAIMS, things.generated(owner, entry))
                await self._patch(PODS, pod, {"metadata": {"labels": {"touched": "true"}}})
            case _:
                await self._use_claims(operation)

    async def _use_claims(self, operation: Operation) -> None:
        match operation:
            case ops.Protect(which):
                await self._patch(CLAIMS, await self._name(which), things.PROTECTION)
            case ops.Allocate(which, pods):
                claim = await self._get(CLAIMS, await self._name(which))
                await self._allocate(claim, [await self._entry(pod) for pod in pods])
            case ops.List(which, pod):
                await self._list(await self._name(which), await self._entry(pod))
            case ops.ListStranger(which, stranger, name):
                await self._list(await self._name(which), things.stranger(stranger, name))
            case ops.Unlist(which, name):
                await self._unlist(await self._get(CLAIMS, await self._name(which)), name)
            case ops.Bind(pod, node):
                await self._bind(pod, node)
            case ops.Schedule(pod, node):
                await self._schedule(pod, node)
            case ops.ExtendedClaim(pod):
                await self._extended_claim(pod)
            case _:
                raise NotImplementedError(repr(operation))

    async def _allocate(self, claim: Json, users: list[Json]) -> None:
        name = claim["metadata"]["name"]
        await self._patch(CLAIMS, name, things.PROTECTION)
        status: Json = {"allocation": things.allocation(claim)}
        if users:
            status["reservedFor"] = users
        await self._patch_status(CLAIMS, name, status)

    async def _list(self, claim: str, entry: Json) -> None:
        await self._patch_status(CLAIMS, claim, {"reservedFor": [entry]})

    async def _schedule(self, pod: str, node: str) -> None:
        found = await self._get(PODS, pod)
        wants = found["spec"].get("resourceClaims", [])
        claims = [await self._get(CLAIMS, _claim_of(found, want["name"])) for want in wants]
        entry = things.entry(found)
        for claim in claims:
            if not allocated(claim):
                await self._allocate(claim, [entry])
            elif entry not in entries(claim):
                await self._list(claim["metadata"]["name"], entry)
        await self._bind(pod, node)

    async def _extended_claim(self, pod: str) -> None:
        found = await self._get(PODS, pod)
        claim = await self._create(CLAIMS, things.extended(found))
        await self._patch_status(PODS, pod, things.extended_status(claim["metadata"]["name"]))
        await self._allocate(claim, [things.entry(found)])

    async def _unlist(self, claim: Json, name: str) -> None:
        gone = [{"$patch": "delete", "uid": entry["uid"]} for entry in entries(claim) if entry["name"] == name]
        if not gone:
            raise Missing
        await self._patch_status(CLAIMS, claim["metadata"]["name"], {"reservedFor": gone})

    async def _bind(self, pod: str, node: str) -> None:
        binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": self._node(node)}}
        await self.api.request("POST", PODS.path(namespace=self.namespace, name=pod, subresource="binding"), binding)

    async def _name(self, which: Claim) -> str:
        match which:
            case ops.Named(name):
                return name
            case ops.Own(pod, entry):
                return _claim_of(await self._get(PODS, pod), entry)
            case ops.Extended(pod):
                status = (await self._get(PODS, pod))["status"].get("extendedResourceClaimStatus")
                if status is None:
                    raise Missing
                return str(status["resourceClaimName"])

    async def _entry(self, pod: str) -> Json:
        return things.entry(await self._get(PODS, pod))

    def _node(self, name: str) -> str:
        return f"{self.namespace}-{name}" if name else ""

    def _path(self, resource: Resource, name: str) -> str:
        return resource.path(namespace=self.namespace, name=name)

    async def _get(self, resource: Resource, name: str) -> Json:
        found = await self.api.find(resource, name, namespace=self.namespace)
        if found is None:
            raise Missing
        return found

    async def _create(self, resource: Resource, obj: Json) -> Json:
        within = self.namespace if resource.namespaced else None
        return self._ours(resource, await self.api.request("POST", resource.path(namespace=within), obj))

    async def _patch(self, resource: Resource, name: str, patch: Json) -> Json:
        return self._ours(resource, await self.api.patch(resource, name, patch, namespace=self.namespace))

    async def _patch_status(self, resource: Resource, name: str, status: Json) -> Json:
        """Lists are merged by their keys, as kubelets and schedulers do."""
        part = {"status": status}
        answer = await self.api.patch(
            resource, name, part, namespace=self.namespace, subresource="status", kind="strategic-merge-patch"
        )
        return self._ours(resource, answer)

    def _ours(self, resource: Resource, answer: Json) -> Json:
        if resource.plural in self.revisions:
            self.revisions[resource.plural].add(revision(answer))
        return answer


def _claim_of(pod: Json, entry: str) -> str:
    named = {want["name"]: want.get("resourceClaimName") for want in pod["spec"].get("resourceClaims", ())}
    made = {each["name"]: each.get("resourceClaimName") for each in pod["status"].get("resourceClaimStatuses", ())}
    name = named.get(entry) or made.get(entry)
    if name is None:
        raise Missing
    return str(name)
