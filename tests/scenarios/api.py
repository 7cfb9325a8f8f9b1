"""The scenarios' own client of the Kubernetes API: plain requests, plain dicts, nothing remembered, nothing retried.

Not `dra.kube`, on purpose: a mistake there must not be able to hide itself here.
"""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

import aiohttp

from tests.scenarios import resources
from tests.scenarios.credentials import Credentials

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
    from pathlib import Path

    from tests.scenarios.resources import Resource

Json = dict[str, Any]

Patch = Literal["merge-patch", "strategic-merge-patch", "json-patch", "apply-patch"]

TIMEOUT: Final = aiohttp.ClientTimeout(total=30)
UNLIMITED: Final = aiohttp.ClientTimeout(total=None, sock_connect=10)

AT_ONCE: Final = 8
"""Objects created in parallel: more only queue up in the API server."""


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, request: str, status: int, answer: Json) -> None:
        super().__init__(f"{request}: {status} {answer.get('reason', '')}: {answer.get('message', answer)}")
        self.status: Final = status
        self.reason: Final = answer.get("reason", "")
        self.answer: Final = answer


class Api:
    """One user's connection to one API server; made by `connect`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session: Final = session

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        limit: aiohttp.ClientTimeout = TIMEOUT,
    ) -> Json:
        """Send one request and return the decoded answer; raise `ApiError` for anything but a 2xx."""
        async with self._session.request(
            method,
            path,
            data=_payload(body),
            params=query,
            headers={"Content-Type": content_type},
            timeout=limit,
        ) as answer:
            found = _decode(await answer.text())
            if not answer.ok:
                raise ApiError(f"{method} {path}", answer.status, found)
            return found

    async def read(self, path: str, *, accept: str) -> bytes:
        """Return an answer in another form than JSON, as it came."""
        async with self._session.get(path, headers={"Accept": accept}, timeout=TIMEOUT) as answer:
            body = await answer.read()
            if not answer.ok:
                raise ApiError(f"GET {path}", answer.status, _decode(body.decode(errors="replace")))
            return body

    async def is_ready(self) -> bool:
        """Tell whether the API server says that it is ready."""
        try:
            await self.request("GET", "/readyz")
        except (aiohttp.ClientError, ApiError):
            return False
        return True

    async def create(self, obj: Json, *, namespace: str | None = None) -> Json:
        """Create an object."""
        resource = resources.of(obj)
        within = namespace if resource.namespaced else None
        return await self.request("POST", resource.path(namespace=within), obj)

    async def create_all(self, objects: Iterable[Json], *, namespace: str | None = None) -> list[Json]:
        """Create many objects, a few at a time."""
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(obj: Json) -> Json:
            async with turn:
                return await self.create(obj, namespace=namespace)

        return list(await asyncio.gather(*map(one, objects)))

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Json:
        """Return one object."""
        return await self.request("GET", resource.path(namespace=namespace, name=name))

    async def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Json | None:
        """Return one object, None when there is none of that name."""
        try:
            return await self.get(resource, name, namespace=namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def all(self, resource: Resource, *, namespace: str | None = None, **query: str) -> list[Json]:
        """Return the objects of a collection; `query` as in the API, e.g. labelSelector."""
        found = await self.request("GET", resource.path(namespace=namespace), query=query)
        items: list[Json] = found["items"]
        return items

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: object,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        kind: Patch = "merge-patch",
    ) -> Json:
        """Patch one object, or a part of it such as its status."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        suffix = "yaml" if kind == "apply-patch" else "json"
        query = {"fieldManager": "scenario", "force": "true"} if kind == "apply-patch" else {}
        return await self.request("PATCH", path, patch, query=query, content_type=f"application/{kind}+{suffix}")

    async def delete(
        self, resource: Resource, name: str, *, namespace: str | None = None, grace_seconds: int | None = None
    ) -> None:
        """Delete one object and, in the background, what it owns; one that is gone already is fine."""
        options: Json = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self.request("DELETE", resource.path(namespace=namespace, name=name), options)
        except ApiError as error:
            if error.status != 404:
                raise

    async def delete_collection(self, resource: Resource, *, namespace: str, grace_seconds: int | None = None) -> None:
        """Delete all objects of a resource in a namespace, however long that takes.

        kube-apiserver answers 504 after 60 seconds, in which it deletes a few thousand pods on a busy machine; the
        next request goes on where the last one ended.
        """
        options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        while True:
            try:
                await self.request("DELETE", resource.path(namespace=namespace), options, limit=UNLIMITED)
            except ApiError as error:
                if error.status != HTTPStatus.GATEWAY_TIMEOUT:
                    raise
            else:
                return

    async def watch(
        self, resource: Resource, *, namespace: str | None = None, **query: str
    ) -> AsyncGenerator[tuple[str, Json]]:
        """Yield (type, object) until the server ends the watch; `query` as in the API, e.g. resourceVersion."""
        path = resource.path(namespace=namespace)
        async with self._session.get(path, params=query | {"watch": "true"}, timeout=UNLIMITED) as answer:
            if not answer.ok:
                raise ApiError(f"WATCH {path}", answer.status, _decode(await answer.text()))
            rest = b""
            try:
                # Not `readline`: it gives up on lines above 64 KiB, and a claim with a full list is longer.
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in filter(None, lines):
                        event = json.loads(line)
                        yield event["type"], event["object"]
            finally:
                # Else the connection waits for the TLS shutdown of an API server that the scenario may have stopped,
                # longer than the event loop lives.
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()


@asynccontextmanager
async def connect(kubeconfig: Path) -> AsyncIterator[Api]:
    """Yield a client for the kubeconfig's server and user."""
    credentials = Credentials.read(kubeconfig)
    async with aiohttp.ClientSession(
        credentials.server,
        connector=aiohttp.TCPConnector(ssl=credentials.tls, limit=0),
        headers=credentials.headers | {"User-Agent": "dra-reserve-scenarios"},
        trust_env=False,
    ) as session:
        yield Api(session)


def _payload(body: object) -> io.BytesIO | None:
    """Return the body as a file: aiohttp warns of more than 1 MiB in one piece."""
    if body is None:
        return None
    return io.BytesIO(body if isinstance(body, bytes) else _compact(body))


def _compact(body: object) -> bytes:
    """Encode as Go does: of parameters for drivers the API server stores each byte, spaces too."""
    return json.dumps(body, separators=(",", ":")).encode()


def _decode(text: str) -> Json:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": text}
