"""A local plane whose scheduler calls an extender over HTTP: ``python -m tests.older_build.plane FOLDER URL``.

`dra-reserve local up` runs the extender of its own build in its own process. Here the extender is a process of either
build, behind the address of a Service, as kube-scheduler calls it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from dra.model.scheduling import SchedulerPod
from localplane.https_server import serve_https
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.scheduler.scheduler_extender import ExtenderRefusedError, ExtenderUnansweredError
from localplane.schemas.builtin_schemas import Dialect

READY: Final = "ready"
"""File in the folder that says that the nodes are ready."""
PROFILES: Final = ("koord-scheduler",)
TIMEOUT: Final = 10.0
_POLL_INTERVAL: Final = 0.05

Json = dict[str, Any]


class HttpExtender:
    """The extender behind a URL, with the interface that the scheduler of a plane calls.

    Filter and prioritize block this process: the extender answers them from its memory, without asking the plane.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def is_ready(self) -> bool:
        """Whether some extender answers."""
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=TIMEOUT):  # noqa: S310 - a URL of ours
                return True
        except OSError:
            return False

    async def wait_ready(self) -> None:
        """Wait until some extender answers."""
        while not self.is_ready:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_POLL_INTERVAL)

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        try:
            found = self._call("filter", pod, nodes)
        except OSError as error:
            return dict.fromkeys(nodes, f"the extender does not answer: {error}")
        return {**found["FailedNodes"], **found["FailedAndUnresolvableNodes"]}

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return the scores of nodes."""
        try:
            found: list[Json] = self._call("prioritize", pod, nodes)
        except OSError:
            return {}
        return {each["Host"]: each["Score"] for each in found}

    async def bind(self, pod: SchedulerPod, node: str, /) -> None:
        """Bind a pod to a node."""
        meta = pod.metadata
        call = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        try:
            async with (
                aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session,
                session.post(f"{self._url}/bind", json=call) as answer,
            ):
                answer.raise_for_status()
                error = json.loads(await answer.read())["Error"]
        except (aiohttp.ClientError, TimeoutError) as failure:
            raise ExtenderUnansweredError(str(failure)) from failure
        if error:
            raise ExtenderRefusedError(error)

    def _call(self, verb: str, pod: SchedulerPod, nodes: Sequence[str]) -> Any:
        body = json.dumps({"Pod": msgspec.to_builtins(pod), "NodeNames": list(nodes)}).encode()
        request = urllib.request.Request(f"{self._url}/{verb}", body)  # noqa: S310 - as above
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310 - as above
            return json.loads(answer.read())


async def run(folder: Path, url: str) -> None:
    """Run the plane until it is killed."""
    plane = LocalPlane(PlaneOptions(api=Dialect.STOCK, nodes=3, devices=0))
    plane.use_extender(HttpExtender(url), profiles=PROFILES)
    async with serve_https(plane.handle, folder=folder), asyncio.TaskGroup() as group:
        group.create_task(plane.run())
        await plane.wait_ready()
        (folder / READY).touch()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2]))
