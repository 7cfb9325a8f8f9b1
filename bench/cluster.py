"""An API server for benches: everything it says has been written before, but for the one claim, which can be patched.

`Cluster` is a transport, so that the cost of a network can be left out; ``python -m bench.cluster`` serves the same
over HTTP from a process of its own.
"""

import argparse
import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from bench import stream
from bench.stream import JOB_UID
from dra.kube.errors import raise_for_status
from dra.kube.transport import Request, Response

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
JOBS: Final = "/apis/batch/v1/jobs"
ONE_CLAIM: Final = f"/apis/resource.k8s.io/v1/namespaces/{stream.NAMESPACE}/resourceclaims/{stream.CLAIM}"
GO: Final = "/bench/go"
"""POST here to have the events sent."""

BOOKMARK_INTERVAL: Final = 30.0
"""Seconds between bookmarks of a watch; clients take a silence of 90 s for a dead connection."""

_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]


def _claim() -> dict[str, Any]:
    entry = {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": JOB_UID}
    guard = {"apiGroup": "reserve.dra", "resource": "guards", "name": stream.CLAIM, "uid": "claim-uid"}
    pods = [
        {"resource": "pods", "name": f"train-{number:05}", "uid": stream.uid(number)}
        for number in range(stream.STARTING)
    ]
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
    return {
        "metadata": {
            "name": stream.CLAIM,
            "namespace": stream.NAMESPACE,
            "uid": "claim-uid",
            "resourceVersion": "1",
            "annotations": {
                "reserve.dra/reserved-for": "jobs.batch/train",
                "reserve.dra/reserved-for-uid": JOB_UID,
            },
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [entry, guard, *pods]},
    }


def _node(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"node-{number:04}", "uid": f"node-{number}", "resourceVersion": "1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "1"}},
    }


def _resource(name: str, kind: str, *, namespaced: bool = True) -> dict[str, Any]:
    return {"name": name, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced, "verbs": _VERBS}


def _resources(group_version: str, *served: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "APIResourceList", "groupVersion": group_version, "resources": list(served)}


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


_EXTENSIONS: Final = "apiextensions.k8s.io"
"""kopf waits until it has seen that there are CRDs and namespaces."""

_DISCOVERY: Final = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [_group("batch"), _group(_EXTENSIONS)]},
    "/api/v1": _resources(
        "v1",
        _resource("pods", "Pod"),
        _resource("nodes", "Node", namespaced=False),
        _resource("namespaces", "Namespace", namespaced=False),
    ),
    "/apis/batch": _group("batch"),
    "/apis/batch/v1": _resources("batch/v1", _resource("jobs", "Job")),
    f"/apis/{_EXTENSIONS}/v1": _resources(
        f"{_EXTENSIONS}/v1", _resource("customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
    ),
}


class Cluster:
    """Implements `dra.kube.transport.Transport`."""

    def __init__(self, *, pods: int, events: int) -> None:
        self.pages = stream.pages(pods)
        self.events = list(stream.events(pods, events))
        self.go = asyncio.Event()
        self._claim = _claim()
        self._claim_patched = asyncio.Event()
        self._last_event = stream.BASE + events
        self._version = self._last_event

    async def send(self, request: Request, /) -> Response:
        """Answer at once."""
        if request.method == "GET":
            return self._read(request)
        if request.method == "PATCH" and request.path.startswith(ONE_CLAIM):
            return self._patch(json.loads(request.body or b""))
        if request.path == GO:
            self.go.set()
        return Response(201, {}, request.body or b"{}")

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        """Watch; only pods and the claim ever change."""
        raise_for_status(Response(200, {}, b""), request.path)
        wants_bookmarks = request.query.get("allowWatchBookmarks") == "true"
        yield self._blocks(request.path, bookmark_interval=BOOKMARK_INTERVAL if wants_bookmarks else None)

    async def close(self) -> None:
        """Nothing is open."""

    async def _blocks(self, path: str, *, bookmark_interval: float | None) -> AsyncIterator[bytes]:
        version, never = stream.BASE, asyncio.Event()
        if path == PODS:
            while not await _is_set_in_time(self.go, bookmark_interval):
                yield _bookmark(version)
            for chunk in self.events:
                yield chunk
                await asyncio.sleep(0)
            version = self._last_event
        while True:
            patched = self._claim_patched if path == CLAIMS else never
            if path == CLAIMS and self._claim_version > version:
                version = self._claim_version
                yield json.dumps({"type": "MODIFIED", "object": self._claim}).encode() + b"\n"
            elif not await _is_set_in_time(patched, bookmark_interval):
                yield _bookmark(version)

    @property
    def _claim_version(self) -> int:
        return int(self._claim["metadata"]["resourceVersion"])

    def _read(self, request: Request) -> Response:
        path = request.path
        if path == PODS:
            page = int(request.query.get("continue", "0"))
            return Response(200, {}, self.pages[page] if "limit" in request.query else _joined(self.pages))
        if path == ONE_CLAIM:
            return _ok(self._claim)
        if path in _DISCOVERY:
            return _ok(_DISCOVERY[path])
        job = {"metadata": {"name": "train", "namespace": stream.NAMESPACE, "uid": JOB_UID, "resourceVersion": "1"}}
        items = {CLAIMS: [self._claim], NODES: [_node(n) for n in range(stream.NODES)], JOBS: [job]}.get(path)
        if items is None:
            return Response(404, {}, b'{"kind":"Status","code":404,"reason":"NotFound"}')
        version = max(self._claim_version, stream.BASE) if path == CLAIMS else stream.BASE
        return _ok({"metadata": {"resourceVersion": str(version)}, "items": items})

    def _patch(self, body: dict[str, Any]) -> Response:
        metadata = body.pop("metadata")
        if metadata.get("resourceVersion") != self._claim["metadata"]["resourceVersion"]:
            return Response(409, {}, b'{"kind":"Status","code":409,"reason":"Conflict"}')
        annotations = {**self._claim["metadata"]["annotations"], **(metadata.get("annotations") or {})}
        self._version += 1
        self._claim = {
            **self._claim,
            "metadata": {
                **self._claim["metadata"],
                "annotations": annotations,
                "resourceVersion": str(self._version),
            },
            "status": {**self._claim["status"], **body.get("status", {})},
        }
        self._claim_patched.set()
        self._claim_patched = asyncio.Event()
        return _ok(self._claim)


async def _is_set_in_time(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event, until the next bookmark is due; return whether the event came."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _bookmark(version: int) -> bytes:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
    return json.dumps(bookmark).encode() + b"\n"


def _ok(content: Any) -> Response:  # noqa: ANN401 - any JSON
    return Response(200, {"content-type": "application/json"}, json.dumps(content).encode())


def _joined(pages: list[bytes]) -> bytes:
    items = b",".join(page.partition(b'"items": [')[2][:-2] for page in pages)
    return b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}' % (
        stream.BASE,
        items,
    )


async def serve(cluster: Cluster) -> None:
    """Serve over HTTP on a free port of the loopback, which is printed; until cancelled."""

    async def handle(request: web.Request) -> web.StreamResponse:
        asked = Request(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            body=await request.read() or None,
            timeout=60.0,
        )
        if "watch" not in request.query:
            answer = await cluster.send(asked)
            return web.Response(status=answer.status, body=answer.body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async with cluster.stream(asked) as blocks:
            async for block in blocks:
                await response.write(block)
        return response

    application = web.Application(client_max_size=1 << 26)
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().create_future()


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    chosen = parser.parse_args()
    await serve(Cluster(pods=chosen.pods, events=chosen.events))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())
