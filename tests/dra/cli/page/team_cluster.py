"""A cluster with several users: an API server in this process that answers reviews from a table of rights.

The server refuses everything that an account of the page needs no right for, so that each test also shows that these
rights suffice.
"""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from bench.page_cluster import claim, node, pod, resource_slice
from dra.api.configuration import Endpoint
from dra.api.page_configuration import PageConfiguration
from dra.cli.page.application import PageApplication
from dra.kube.resources import Resource
from dra.kube.tasks import background_task
from dra.kube.transport import MERGE_PATCH, Request, Response
from dra.model.workload_types import WORKLOAD_TYPES
from localplane import status_errors
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport

AUDIENCE = "dra-reserve-page"
DRA = "resource.k8s.io"
KOORDINATOR = "scheduling.koordinator.sh"

TENANT_KINDS = {"resourceclaims", "pods", "resourceclaimtemplates", "jobs", "events"}
OPERATOR_KINDS = TENANT_KINDS | {"nodes", "resourceslices", "deviceclasses", "reservations", "podmigrationjobs"}

USERS = {
    "operator-token": ("operator", {("", kind) for kind in OPERATOR_KINDS}),
    "ml-token": ("ml-user", {("ml", kind) for kind in TENANT_KINDS}),
    "other-token": ("other-user", {("other", kind) for kind in TENANT_KINDS}),
    "claims-token": ("claims-user", {("ml", "resourceclaims")}),
    "nobody-token": ("nobody", set()),
}
"""Token → name of the user, and the (namespace, kind) that the user may list, watch and get; "" for all namespaces."""

LISTED_AND_WATCHED = {
    "resourceclaims",
    "pods",
    "nodes",
    "resourceslices",
    "reservations",
    "podmigrationjobs",
    "nodemetrics",
}
LISTED = {
    "deviceclasses",
    "devicetaintrules",
    "resourceclaimtemplates",
    "namespaces",
    "poddisruptionbudgets",
    "events",
    *(each.resource.resource for each in WORKLOAD_TYPES if each.readable),
}
LEASES = {"dra-reserve-controller", "dra-reserve-descheduler"}
_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<kind>[^/]+)(?:/(?P<name>[^/]+))?$"
)


class TeamServer:
    """An API server with users whose rights tests change."""

    def __init__(self):
        self.server = ApiServer()
        self.users = {token: (name, set(rights)) for token, (name, rights) in USERS.items()}
        self.audiences = [AUDIENCE]
        self.refused_kinds = set()
        self.failing = set()
        self.reviews = []

    async def create(self, kind, content, namespace=""):
        """Create an object and set its status, as two requests do."""
        found = next(each for each in self.server.catalog if each.name == kind)
        meta = {name: value for name, value in content["metadata"].items() if name not in {"uid", "resourceVersion"}}
        route = Route(found, namespace=namespace) if namespace else Route(found)
        self.server.registry.create(route, {**content, "metadata": meta})
        if content.get("status"):
            name = meta["name"]
            path = Resource(found.group, found.version, found.plural, kind, found.namespaced).path(
                namespace or None, name, "status"
            )
            body = json.dumps({"status": content["status"]}).encode()
            request = Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH, timeout=10.0)
            answer = await self.server.handle(request)
            assert answer.status == 200, answer.body

    async def handle(self, request):
        kind = request.path.rpartition("/")[2]
        if kind in self.failing:
            return status_errors.StatusError(500, "InternalError", "etcd has no leader").response
        if request.method == "POST" and kind in {"tokenreviews", "subjectaccessreviews"}:
            return self._review(kind, json.loads(request.body))
        if not self._page_may(request):
            text = f'{kind}: User "system:serviceaccount:dra-reserve:dra-reserve-page" cannot {request.method}'
            return status_errors.StatusError(403, "Forbidden", text).response
        return await self.server.handle(request)

    def _page_may(self, request):
        """Report whether an account with exactly the documented rights may send a request."""
        parts = _PATH.match(request.path)
        if parts is None:
            return request.method == "GET"  # discovery, /version and the like
        kind, name = parts["kind"], parts["name"]
        if request.method != "GET" or kind in self.refused_kinds:
            return False
        if name is not None:
            return kind == "leases" and name in LEASES
        return kind in LISTED_AND_WATCHED or (kind in LISTED and "watch" not in request.query)

    def _review(self, kind, review):
        spec = review["spec"]
        if kind == "tokenreviews":
            name, _ = self.users.get(spec["token"], ("", set()))
            status = {"authenticated": bool(name), **({} if name else {"error": "invalid bearer token"})}
            if name:
                user = {"username": name, "uid": f"uid-{name}", "groups": ["team"], "extra": {"scopes": ["a", "b"]}}
                status |= {"user": user, "audiences": self.audiences}
        else:
            self.reviews.append(spec)
            asked = spec["resourceAttributes"]
            rights = next((rights for name, rights in self.users.values() if name == spec["user"]), set())
            allowed = any((where, asked["resource"]) in rights for where in {"", asked["namespace"]})
            status = {"allowed": allowed}
        body = msgspec.json.encode({**review, "metadata": {}, "status": status})
        return Response(201, {"content-type": "application/json"}, body)


class SlowReviews(TeamServer):
    """Answers a TokenReview of a stranger's token only at the end."""

    def __init__(self):
        super().__init__()
        self.over = asyncio.Event()
        self.waiting = 0

    async def handle(self, request):
        if request.path.endswith("/tokenreviews") and b"stranger" in request.body:
            self.waiting += 1
            await self.over.wait()
        return await super().handle(request)


def tenant_pod(name, namespace, claimed, **given):
    """Return a Pod that an API server accepts."""
    found = pod(name, namespace, claimed, **given)
    containers = [{**each, "image": "example.com/train"} for each in found["spec"]["containers"]]
    return {**found, "spec": {**found["spec"], "containers": containers}}


async def two_tenants():
    """Return a server with a claim and a pod in each of two namespaces, on a node with four devices."""
    found = TeamServer()
    for name in ("ml", "other", "dra-reserve"):
        await found.create("Namespace", {"metadata": {"name": name}})
    await found.create("Node", node("n1"))
    await found.create("ResourceSlice", resource_slice("n1", 4))
    await found.create("DeviceClass", {"metadata": {"name": "gpu.example.com"}, "spec": {}})
    for namespace, name in (("ml", "train-job"), ("other", "secret-job")):
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/train"}]}}
        await found.create("Job", {"metadata": {"name": name}, "spec": {"template": template}}, namespace)
    for namespace, name, device in (("ml", "train", "n1/gpu-0"), ("other", "secret", "n1/gpu-1")):
        await found.create("ResourceClaim", claim(name, namespace, device, workload=f"{name}-job"), namespace)
        await found.create("Pod", tenant_pod(f"{name}-pod", namespace, name, on="n1"), namespace)
    why = "0/1 nodes are available: 1 cannot allocate all claims."
    await found.create("ResourceClaim", claim("secret-too", "other", count=9), "other")
    await found.create("Pod", tenant_pod("secret-waiting", "other", "secret-too", why=why), "other")
    return found


def configuration(**given):
    closed = Endpoint(port=0)
    return PageConfiguration(
        **{"serve": closed, "probes": closed, "metrics": closed, "qps": 10_000.0, "burst": 10_000, **given}
    )


class Browser:
    """Requests as the scripts of the page send them."""

    def __init__(self, application, session):
        self.application = application
        self.session = session

    def get(self, path, token="", **headers):
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return self.session.get(f"{self.application.address}{path}", headers={**given, **headers})

    async def answer(self, path, token=""):
        """Return status and text."""
        async with self.get(path, token) as response:
            return response.status, await response.text()

    async def view(self, view, token, namespace="", *, wanted):
        """Wait until a view has exactly the wanted keys, and return its rows by key."""
        text = ""
        try:
            async with asyncio.timeout(20):
                while True:
                    status, text = await self.answer(f"/api/rows?view={view}&ns={namespace}", token)
                    assert status == 200, text
                    found = json.loads(text)
                    rows = {row[0]: dict(zip(found["columns"], row, strict=True)) for row in found["rows"]}
                    if rows.keys() == wanted and found["ready"]:
                        return rows
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{view} does not have the rows {sorted(wanted)}: {text}") from None

    async def stream(self, views, token, namespace=""):
        """Open a stream that continues after the rows that the page has now."""
        _, text = await self.answer(f"/api/rows?view=claims&ns={namespace}", token)
        headers = {"Last-Event-ID": json.loads(text)["id"]}
        return await self.get(f"/api/events?views={views}&ns={namespace}", token, **headers).__aenter__()


@asynccontextmanager
async def running(server, *, ready=True, **given):
    """Run the application until its caches are filled, if `ready`; yield a browser of its page."""
    application = PageApplication(configuration(**given), LocalTransport(server))
    async with background_task(application.run(), name="page"), aiohttp.ClientSession(trust_env=False) as session:
        async with asyncio.timeout(30):
            while not application.address or (ready and application.feeds.not_ready_reasons()):  # noqa: ASYNC110 - states of two parts
                await asyncio.sleep(0.005)
        yield Browser(application, session)


async def read_event(response):
    """Return the next event of a stream, without comments."""
    while True:
        lines = []
        while (line := (await response.content.readline()).decode().rstrip("\n")) != "":
            lines.append(line)
        if not lines[0].startswith(":"):
            return dict(each.split(": ", 1) for each in lines)
