"""Worlds that ask for advice: clusters in all the states that mistakes, crashes and stopped controllers leave behind.

Each is made from one seed. Every property of an object is drawn by itself, so that combinations which nobody has
thought of are as likely as the others; names repeat between namespaces and between an object and the one before it.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any, Final

from dra.kube.clock import SYSTEM, rfc3339
from dra.kube.transport import JSON, MERGE_PATCH, Request
from tests.advice.comparing import GATE, PROTECTION

if TYPE_CHECKING:
    from localplane.server import ApiServer
    from tests.advice.comparing import Name

Json = dict[str, Any]

DRIVER: Final = "gpu.example.com"
NAMESPACES: Final = ("ml", "web")
KINDS: Final = {
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "pods": "/api/v1/pods",
    "configmaps": "/api/v1/configmaps",
    "leases": "/apis/coordination.k8s.io/v1/leases",
    "jobs": "/apis/batch/v1/jobs",
    "deployments": "/apis/apps/v1/deployments",
    "replicasets": "/apis/apps/v1/replicasets",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
    "resourceslices": "/apis/resource.k8s.io/v1/resourceslices",
    "deviceclasses": "/apis/resource.k8s.io/v1/deviceclasses",
}
"""What is compared: resource → all objects of it."""

OF_NODES: Final = ("n1", "n2", "n3")
WORKLOADS: Final = (("jobs", "batch", "train"), ("jobs", "batch", "other"), ("deployments", "apps", "crew"))
REFERENCES: Final = (
    "jobs.batch/train",
    "jobs.batch/train",
    "jobs.batch/train",
    "jobs.batch/other",
    "deployments.apps/crew",
    "jobs.batch/not-there",
    "job/train",
    "jobs/train",
    "jobs.btach/train",
    "the Job train",
    "deploy/crew",
    "rayclusters.ray.io/llm",
    "jobs.batch/kubectl delete node n1",
)


DEVICES: Final = 5
DRAWN: Final = (
    "noted",
    "forced",
    "reserved",
    "finalized",
    "held",
    "owned",
    "listed",
    "workload",
    "ghost",
    "foreign",
    "lost",
    "guarded",
)


class World:
    """One cluster in the making."""

    def __init__(self, server: ApiServer, seed: int) -> None:
        self.server = server
        self.chance = Random(seed)  # noqa: S311 - no secret
        self.uids: dict[Name, str] = {}
        self.free = [(node, f"gpu-{number}") for node in OF_NODES for number in range(DEVICES)]
        self.share = {name: self.chance.choice((0.0, 0.1, 0.3, 0.9)) for name in DRAWN}
        """How likely each thing is in this world: rare combinations are common in some of them."""

    async def make(self) -> None:
        """Make everything: nodes and devices, workloads, claims, pods, and the entries of the lists last."""
        for node in OF_NODES:
            await self._node(node)
        await self.create("deviceclasses", "", {"metadata": {"name": DRIVER}, "spec": {}})
        for namespace in (*NAMESPACES, "dra-reserve"):
            await self.create("namespaces", "", {"metadata": {"name": namespace}})
            account = {"metadata": {"name": "default"}}
            await self.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
        await self._lease()
        for namespace in NAMESPACES:
            for resource, group, name in WORKLOADS:
                if self.chance.random() < 0.7:
                    await self._workload(namespace, resource, group, name)
            claims = [f"c{number}" for number in range(6)]
            for name in claims:
                await self._claim(namespace, name)
            for number in range(5):
                await self._pod(namespace, f"p{number}", claims[:3])
            for name in claims:
                await self._status(namespace, name)

    async def state(self) -> dict[Name, Json]:
        """Return all objects but Events."""
        found: dict[Name, Json] = {}
        for resource, path in KINDS.items():
            for each in (await self.ask("GET", path))["items"]:
                meta = each["metadata"]
                meta.pop("managedFields", None)
                found[resource, meta.get("namespace", ""), meta["name"]] = each
        return found

    async def ask(self, method: str, path: str, body: Json | None = None, *, kind: str = JSON) -> Json:
        """Send a request; a refusal is a mistake of the world."""
        raw = None if body is None else json.dumps(body).encode()
        answer = await self.server.handle(Request(method=method, path=path, body=raw, content_type=kind, timeout=5.0))
        assert answer.status < 300, answer.body
        return dict(json.loads(answer.body))

    async def create(self, resource: str, namespace: str, body: Json) -> Json:
        """Create an object."""
        made = await self.ask("POST", self._path(resource, namespace), body)
        self.uids[resource, namespace, made["metadata"]["name"]] = made["metadata"]["uid"]
        return made

    async def patch(self, resource: str, namespace: str, name: str, body: Json, *, subresource: str = "") -> Json:
        """Patch an object."""
        path = f"{self._path(resource, namespace)}/{name}"
        return await self.ask("PATCH", path + (f"/{subresource}" if subresource else ""), body, kind=MERGE_PATCH)

    def maybe(self, share: float) -> bool:
        """Draw."""
        return self.chance.random() < share

    def drawn(self, what: str) -> bool:
        """Draw with the share that this world has for it."""
        return self.maybe(self.share[what])

    @staticmethod
    def _path(resource: str, namespace: str) -> str:
        before, _, plural = KINDS[resource].rpartition("/")
        return f"{before}/namespaces/{namespace}/{plural}" if namespace else f"{before}/{plural}"

    async def _node(self, name: str) -> None:
        taints = [{"key": "team", "value": "red", "effect": "NoSchedule"}] if self.maybe(0.2) else []
        spec = {"taints": taints, "unschedulable": self.maybe(0.25)}
        await self.create("nodes", "", {"metadata": {"name": name, "labels": {"zone": "b"}}, "spec": spec})
        ready = {"type": "Ready", "status": self.chance.choice(["True", "True", "True", "Unknown"])}
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        await self.patch(
            "nodes", "", name, {"status": {"conditions": [ready], "allocatable": room}}, subresource="status"
        )
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(DEVICES)]
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        await self.create("resourceslices", "", {"metadata": {"name": f"{name}-gpus"}, "spec": spec})

    async def _lease(self) -> None:
        """A lease of our controller: none, an old one, or a fresh one."""
        kind = self.chance.choice(["none", "none", "old", "fresh"])
        if kind == "none":
            return
        when = rfc3339(SYSTEM.wall()) if kind == "fresh" else "2026-01-01T00:00:00.000000Z"
        when = when.replace("Z", ".000000Z") if "." not in when else when
        spec = {"holderIdentity": "c-1", "leaseDurationSeconds": 15, "renewTime": when, "acquireTime": when}
        body = {"metadata": {"name": "dra-reserve-controller"}, "spec": spec}
        await self.create("leases", "dra-reserve", body)

    async def _workload(self, namespace: str, resource: str, group: str, name: str) -> None:
        container = {"name": "main", "image": "x"}
        labels = {"app": name}
        template: Json = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec: Json = {"template": template, "selector": {"matchLabels": labels}}
        if resource == "jobs":
            template["spec"]["restartPolicy"] = "Never"
            spec = {"template": template}
        await self.create(resource, namespace, {"metadata": {"name": name}, "spec": spec})
        if resource == "jobs" and self.maybe(0.35):
            over = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
            now = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z"}
            await self.patch(resource, namespace, name, {"status": now | {"conditions": over}}, subresource="status")
        del group

    async def _claim(self, namespace: str, name: str) -> None:
        annotations: Json = {}
        if self.drawn("reserved") and (reference := self.chance.choice(REFERENCES)):
            annotations["reserve.dra/reserved-for"] = reference
            if self.maybe(0.3):
                annotations["reserve.dra/reserved-for-uid"] = self.chance.choice(["uid-of-the-one-before", "no uid"])
        if self.drawn("noted"):
            annotations["reserve.dra/entered-allocation"] = "0123456789abcdef"
        if self.drawn("forced"):
            annotations["reserve.dra/force-release"] = "true"
        request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": self.chance.choice([1, 1, 1, 9])}}
        meta = {"name": name, "annotations": annotations, "labels": {"team": "red"}}
        await self.create("resourceclaims", namespace, {"metadata": meta, "spec": {"devices": {"requests": [request]}}})

    async def _pod(self, namespace: str, name: str, claims: list[str]) -> None:
        meta: Json = {"name": name}
        owners = [each for each in self.uids if each[0] in {"jobs", "deployments"} and each[1] == namespace]
        if owners and self.maybe(0.6):
            resource, _, owner = self.chance.choice(owners)
            uid = self.uids[resource, namespace, owner] if self.maybe(0.7) else "uid-of-the-one-before"
            kind = {"jobs": ("batch/v1", "Job"), "deployments": ("apps/v1", "Deployment")}[resource]
            meta["ownerReferences"] = [
                {"apiVersion": kind[0], "kind": kind[1], "name": owner, "uid": uid, "controller": True}
            ]
        bound = self.maybe(0.6)
        spec: Json = {"containers": [{"name": "main", "image": "x"}]}
        names = [self.chance.choice([*claims, "not-there"])]
        spec["resourceClaims"] = [{"name": f"r{index}", "resourceClaimName": each} for index, each in enumerate(names)]
        if bound:
            spec["nodeName"] = self.chance.choice(OF_NODES)
        elif self.maybe(0.5):
            gates = self.chance.choice(
                [[GATE], [GATE], ["kueue.x-k8s.io/admission"], [GATE, "kueue.x-k8s.io/admission"]]
            )
            spec["schedulingGates"] = [{"name": each} for each in gates]
        if self.maybe(0.15):
            spec["nodeSelector"] = {"zone": "a"}
        if self.maybe(0.2):
            meta["finalizers"] = ["example.com/hold"]
        await self.create("pods", namespace, {"metadata": meta, "spec": spec})
        if bound:
            phase = self.chance.choice(["Pending", "Pending", "Running", "Running", "Succeeded", "Failed"])
            ready = phase == "Running" or (phase == "Pending" and self.maybe(0.2))
            conditions = [{"type": "PodReadyToStartContainers", "status": str(ready)}]
            status = {"phase": phase, "conditions": conditions}
            await self.patch("pods", namespace, name, {"status": status}, subresource="status")
        if "finalizers" in meta and self.maybe(0.5):
            await self.ask("DELETE", f"{self._path('pods', namespace)}/{name}")

    async def _status(self, namespace: str, name: str) -> None:
        """Give a claim devices, a list, finalizers and owners, or some of them; and delete it, now and then."""
        finalizers = [PROTECTION] if self.maybe(0.6) else []
        finalizers += ["example.com/hold"] if self.drawn("finalized") else []
        meta: Json = {"finalizers": finalizers}
        pods = [each for each in self.uids if each[0] == "pods" and each[1] == namespace]
        if self.drawn("owned"):
            uid = self.chance.choice([self.uids[pods[0]], "uid-of-a-ghost"])
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pods[0][2], "uid": uid, "controller": True}
            meta["ownerReferences"] = [owner]
        await self.patch("resourceclaims", namespace, name, {"metadata": meta})
        if self.maybe(0.7):
            status = {"allocation": self._allocation(), "reservedFor": self._entries(namespace, name, pods)}
            await self.patch("resourceclaims", namespace, name, {"status": status}, subresource="status")
        if finalizers and self.maybe(0.2):
            await self.ask("DELETE", f"{self._path('resourceclaims', namespace)}/{name}")

    def _allocation(self) -> Json:
        node, device = self.chance.choice(self.free)
        if len(self.free) > 1 and self.maybe(0.95):
            self.free.remove((node, device))
        result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        found: Json = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
        }
        if self.maybe(0.9):
            found["allocationTimestamp"] = "2026-01-01T00:00:00Z"
        return found

    def _entries(self, namespace: str, claim: str, pods: list[Name]) -> list[Json]:
        found = [{"resource": "pods", "name": each[2], "uid": self.uids[each]} for each in pods if self.drawn("listed")]
        for resource, group, name in WORKLOADS:
            uid = self.uids.get((resource, namespace, name), f"uid-of-the-{name}-before")
            if self.drawn("workload"):
                found.append({"apiGroup": group, "resource": resource, "name": name, "uid": uid})
        if self.drawn("ghost"):
            found.append({"resource": "pods", "name": "ghost", "uid": "uid-of-a-ghost"})
        if self.drawn("foreign"):
            found.append({"apiGroup": "example.com", "resource": "widgets", "name": "dam", "uid": "uid-of-dam"})
        if self.drawn("lost"):
            node = self.chance.choice(OF_NODES)
            found.append(
                {"apiGroup": "reserve.dra", "resource": "lostnodes", "name": node, "uid": self.uids["nodes", "", node]}
            )
        if self.drawn("guarded"):
            uid = self.uids["resourceclaims", namespace, claim]
            found.append({"apiGroup": "reserve.dra", "resource": "guards", "name": claim, "uid": uid})
        return found
