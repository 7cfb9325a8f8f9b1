"""An API server in one function: objects with resourceVersions, merge patches, and watches that show every change."""

import asyncio
import contextlib
import json
from collections import defaultdict
from copy import deepcopy
from types import MappingProxyType

from dra.kube.errors import raise_for_status
from dra.kube.transport import JSON_PATCH, STRATEGIC_PATCH, Response
from localplane.patches import json_patch as json_patches
from localplane.status_errors import StatusError
from tests.dra.kube.scripted import BROKEN, frame, ok, refusal

CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/jobs"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
TEMPLATES = "/apis/resource.k8s.io/v1/resourceclaimtemplates"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
COLLECTIONS = (CLAIMS, PODS, NODES, JOBS, SLICES, CLASSES, RULES, TEMPLATES, GROUPS, RESERVATIONS, NODE_METRICS)

BATCH = {"versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}
BATCH_V1 = {"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]}
DRA_VERSIONS = {"versions": [{"version": "v1"}, {"version": "v1beta2"}], "preferredVersion": {"version": "v1"}}
WITH_RULES = {"resources": [{"name": "devicetaintrules", "kind": "DeviceTaintRule", "namespaced": False}]}
SCHEDULING = {"versions": [{"version": "v1alpha2"}], "preferredVersion": {"version": "v1alpha2"}}
WITH_GROUPS = {"resources": [{"name": "podgroups", "kind": "PodGroup", "namespaced": True}]}
DISCOVERY = {
    "/apis/batch": BATCH,
    "/apis/batch/v1": BATCH_V1,
    "/apis/resource.k8s.io": DRA_VERSIONS,
    "/apis/resource.k8s.io/v1": {"resources": []},
}

MERGE_KEYS = {"conditions": "type", "reservedFor": "uid"}
"""Of lists that a strategic merge patch merges: the field that tells their elements apart."""


class Cluster:
    """Implements `dra.kube.transport.Transport`. `objects` is by path; `disturb` runs before a write, once."""

    def __init__(self):
        self.objects = {}
        self.version = 100
        self.requests = []
        self.refuse = {}
        """Collection path → the answer to whoever lists or watches there."""
        self.disturb = {}
        """Path → what somebody else does right before the next write on it."""
        self.answer = {}
        """Method, or method and path → the answer to all such requests."""
        self.discovery = dict(DISCOVERY)
        """Path → what is served there; `WITH_RULES` and `SCHEDULING` are not, as by default up to 1.36."""
        self._watches = defaultdict(list)
        self._moved = {}
        """Path of a collection under a later version → its path at first."""

    def put(self, collection, namespace, name, **content):
        """Create an object or replace it, as somebody else would."""
        path = self.path(collection, namespace, name)
        self.version += 1
        known = self.objects.get(path)
        metadata = {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "uid": f"uid-{name}",
            **content.pop("metadata", {}),
            "resourceVersion": str(self.version),
        }
        self.objects[path] = {"metadata": metadata, **content}
        self._show("MODIFIED" if known else "ADDED", collection, self.objects[path])
        return self.objects[path]

    def drop(self, collection, namespace, name):
        gone = self.objects.pop(self.path(collection, namespace, name))
        self.version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._show("DELETED", collection, gone)

    def serve_under(self, collection, version):
        """Serve the group of a collection in another version, and the collection only there; its old watches break."""
        group, _, plural = collection.rpartition("/")
        root, _, before = group.rpartition("/")
        self._moved[f"{root}/{version}/{plural}"] = collection
        self.discovery[root] = {"versions": [{"version": version}], "preferredVersion": {"version": version}}
        self.discovery[f"{root}/{version}"] = self.discovery.pop(f"{root}/{before}")
        self.refuse[collection] = refusal(404, "NotFound")
        while self._watches[collection]:
            self._watches[collection].pop().put_nowait(BROKEN)

    def expire(self, *collections):
        """End watches: what they would have told is not kept any more, and must be listed."""
        for collection in collections:
            queues = self._watches[collection]
            while queues:
                queues.pop().put_nowait(frame("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))

    def restore(self, objects, version):
        """Go back to what was, as from a backup; all watches break."""
        self.objects, self.version = dict(objects), version
        for queues in self._watches.values():
            while queues:
                queues.pop().put_nowait(BROKEN)

    @staticmethod
    def path(collection, namespace, name):
        root, _, plural = collection.rpartition("/")
        return f"{root}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{collection}/{name}"

    def writes(self, ending=""):
        """What was written on whom: (name, subresource or "", body)."""
        found = []
        for request in self.requests:
            if request.method == "PATCH" and ending in request.path:
                parts = request.path.split("/")
                subresource = parts[-1] if parts[-1] == "status" else ""
                found.append((parts[-2] if subresource else parts[-1], subresource, json.loads(request.body)))
        return found

    async def send(self, request):
        self.requests.append(request)
        await asyncio.sleep(0)
        handle = {"GET": self._get, "PATCH": self._patch, "POST": self._post, "DELETE": self._delete}[request.method]
        special = self.answer.get((request.method, request.path)) or self.answer.get(request.method)
        return special or handle(request)

    @contextlib.asynccontextmanager
    async def stream(self, request):
        self.requests.append(request)
        if request.path in self.refuse:
            raise_for_status(self.refuse[request.path], request.path)
        queue = asyncio.Queue()
        self._watches[self._moved.get(request.path, request.path)].append(queue)

        async def blocks():
            while True:
                block = await queue.get()
                if isinstance(block, Exception):
                    raise block
                yield block

        yield blocks()

    async def close(self):
        pass

    def _get(self, request):
        path = request.path
        if path in self.discovery:
            return ok(self.discovery[path])
        if path in self._moved:
            return self._list(self._moved[path], self._moved[path])
        for collection in COLLECTIONS:
            plural = collection.rpartition("/")[2]
            if path == collection or path.endswith(f"/{plural}"):
                return self.refuse.get(collection) or self._list(collection, path, request.query)
        found = self.objects.get(path)
        return ok(found) if found else refusal(404, "NotFound", name=path.rpartition("/")[2])

    def _list(self, collection, path, query=MappingProxyType({})):
        """Return the objects of a collection; of field selectors the one on a pod's node is heeded."""
        root, plural = collection.rpartition("/")[::2]
        namespace = path.removeprefix(f"{root}/namespaces/").partition("/")[0] if "/namespaces/" in path else ""
        items = [
            found
            for key, found in self.objects.items()
            if key.startswith(f"{root}/")
            and f"/{plural}/" in key
            and (not namespace or f"/namespaces/{namespace}/" in key)
        ]
        for wanted in query.get("fieldSelector", "").split(","):
            field, _, node = wanted.partition("=")
            if field == "spec.nodeName":
                items = [each for each in items if each.get("spec", {}).get("nodeName", "") == node]
        return ok({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    def _patch(self, request):
        path = request.path.removesuffix("/status")
        if path in self.disturb:
            self.disturb.pop(path)()
        found, body = self.objects.get(path), json.loads(request.body)
        if found is None:
            return refusal(404, "NotFound", name=path.rpartition("/")[2])
        if request.content_type == JSON_PATCH:
            try:
                after = json_patches.mutation(body)(deepcopy(found))
            except StatusError:
                return refusal(422, "Invalid")
            return self._written(path, after)
        wanted, uid = body["metadata"].pop("resourceVersion", None), body["metadata"].pop("uid", None)
        if uid not in {None, found["metadata"]["uid"]}:
            return refusal(422, "Invalid", causes=[{"field": "metadata.uid", "reason": "FieldValueInvalid"}])
        if wanted not in {None, found["metadata"]["resourceVersion"]}:
            return refusal(409, "Conflict")
        if request.content_type == STRATEGIC_PATCH:
            ((name, items),) = body["status"].items()
            told = {each[MERGE_KEYS[name]]: each for each in items}
            kept = [each for each in found.get("status", {}).get(name, ()) if each[MERGE_KEYS[name]] not in told]
            body["status"][name] = [*told.values(), *kept]
        return self._written(path, merged(found, body))

    def _written(self, path, after):
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = after
        root, plural = path.rsplit("/", 2)[:2]
        self._show("MODIFIED", f"{root.partition('/namespaces/')[0]}/{plural}", after)
        return ok(after)

    def _delete(self, request):
        """With a grace period, as of a pod whose kubelet has something to do yet."""
        if request.path in self.disturb:
            self.disturb.pop(request.path)()
        found, options = self.objects.get(request.path), json.loads(request.body)
        if found is None:
            return refusal(404, "NotFound", name=request.path.rpartition("/")[2])
        if options["preconditions"]["uid"] != found["metadata"]["uid"]:
            return refusal(409, "Conflict")
        self.version += 1
        ending = {"deletionTimestamp": "2026-11-20T12:00:00Z", "resourceVersion": str(self.version)}
        self.objects[request.path] = {**found, "metadata": {**found["metadata"], **ending}}
        root, plural = request.path.rsplit("/", 2)[:2]
        self._show("MODIFIED", f"{root.partition('/namespaces/')[0]}/{plural}", self.objects[request.path])
        return ok(self.objects[request.path])

    def _post(self, request):
        return Response(201, {}, request.body)

    def _show(self, kind, collection, obj):
        for queue in self._watches[collection]:
            queue.put_nowait(frame(kind, obj))


def merged(before, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after
