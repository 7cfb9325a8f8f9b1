"""A server and short ways to ask it."""

import json

from dra.kube.transport import JSON, MERGE_PATCH, Request, Response
from localplane.kinds.kind import Kind
from localplane.server import ApiServer
from tests.dra.kube.virtual import LoopClock, seeded

MAPS = "/api/v1/namespaces/default/configmaps"


class ApiClient:
    def __init__(self):
        self.server = ApiServer(clock=LoopClock(), random=seeded(1))

    async def ask(self, method, path, body=None, *, content_type=JSON, accept=JSON, **query):
        """Return the answer as it is."""
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        return await self.server.handle(
            Request(
                method=method, path=path, query=query, body=raw, content_type=content_type, accept=accept, timeout=5
            )
        )

    async def send(self, method, path, body=None, **how):
        """Return status and body."""
        answer = await self.ask(method, path, body, **how)
        assert isinstance(answer, Response)
        return answer.status, json.loads(answer.body)

    async def ok(self, method, path, body=None, **how):
        """Return the body of a success."""
        status, found = await self.send(method, path, body, **how)
        assert status < 300, found
        return found

    async def refused(self, method, path, body=None, **how):
        """Return code and message of a refusal."""
        status, found = await self.send(method, path, body, **how)
        assert status >= 400, found
        assert status == found["code"]
        return status, found["message"]

    async def map(self, name, *, path=MAPS, data=None, **metadata):
        """Create a ConfigMap."""
        return await self.ok("POST", path, {"metadata": {"name": name, **metadata}, "data": data or {}})

    async def patch(self, path, body, **how):
        return await self.ok("PATCH", path, body, content_type=MERGE_PATCH, **how)

    async def watch(self, path, **how):
        """Return the blocks of a watch."""
        answer = await self.ask("GET", path, watch="1", **how)
        assert not isinstance(answer, Response), answer.body
        return answer.blocks

    async def events(self, path, **how):
        """Return the events of a watch from its beginning to its end."""
        blocks = [block async for block in await self.watch(path, **how)]
        return [json.loads(line) for line in b"".join(blocks).splitlines()]

    def serve(self, kind: Kind):
        self.server.catalog.add(kind)
        self.server.store.start_history(kind.collection)


def told(events):
    """Return types and names."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def names(listed):
    return [item["metadata"]["name"] for item in listed["items"]]
