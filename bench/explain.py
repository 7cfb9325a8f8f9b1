"""What the reading commands of ``kubectl dra`` cost: seconds and memory of the process that a person starts.

python -m bench.explain [--pods N] [--claims N] [--nodes N] [--runs N] [--write]

The server is the local plane's, in this process, behind HTTP and TLS; the commands are processes of their own, since
that is what people wait for. Every claim is allocated and used by pods, but for one that waits and finds all devices
taken.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench import readme
from bench.process_memory import memory
from dra.kube.transport import JSON, MERGE_PATCH, Request, Response
from localplane.https_server import serve_https
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer, WatchResponse
from localplane.store import ObjectKey

MARK: Final = "explain"
NAMESPACE: Final = "ml"
DRIVER: Final = "gpu.example.com"
CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
GPUS: Final = 2
"""Of each node."""

STUFFING: Final = {"name": "STUFFING", "value": "x" * 2000}
"""Makes a pod as large as they are."""

COMMANDS: Final = {
    "--help": ("--help",),
    "explain claim": ("explain", "claim", "c-00000", f"--namespace={NAMESPACE}"),
    "explain pod (pending)": ("explain", "pod", "waits", f"--namespace={NAMESPACE}"),
    "audit": ("audit",),
    "get claims -A": ("get", "claims", "-A"),
    "get devices": ("get", "devices"),
    "tree -A": ("tree", "-A"),
    "usage --by node": ("usage", "--by=node", "-A"),
    "bundle": ("bundle", "-A"),
}
_UID: Final = re.compile(rb'"uid":"[^"]*"')
_VERSION: Final = re.compile(rb'"resourceVersion":"[^"]*"')

FROM_BUNDLE: Final = "explain claim --from bundle"
LIST_ALONE: Final = "the list of the pods alone"
"""What the API server's JSON of the namespace costs a client that decodes nothing of it."""

KUBECTL_DRA: Final = (sys.executable, "-m", "dra.cli.kubectl.main")
KUBECTL: Final = shutil.which("kubectl")


class Server:
    """The API server, and what it was asked for."""

    def __init__(self) -> None:
        self._server = ApiServer(api=Dialect.STOCK)
        self.limits: Counter[str] = Counter()
        self._copies = 0

    async def handle(self, request: Request) -> Response | WatchResponse:
        """Answer, and note the page size of lists of many."""
        if request.method == "GET" and re.search(r"/(pods|nodes|resourceclaims|resourceslices)$", request.path):
            self.limits[request.query.get("limit", "none")] += 1
        return await self._server.handle(request)

    async def write(self, method: str, path: str, body: Any) -> None:  # noqa: ANN401 - JSON
        """Send one write; ends the bench if that is refused."""
        kind = MERGE_PATCH if method == "PATCH" else JSON
        request = Request(method=method, path=path, body=json.dumps(body).encode(), content_type=kind, timeout=60.0)
        answer = await self._server.handle(request)
        if not isinstance(answer, Response) or answer.status >= 300:  # noqa: PLR2004 - 2xx
            raise SystemExit(f"{method} {path}: {answer}")

    async def fill(self, *, pods: int, claims: int, nodes: int) -> None:
        """Make the cluster."""
        for name in (NAMESPACE, "dra-reserve"):
            await self.write("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        await self.write("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        device_class = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
        await self.write("POST", "/apis/resource.k8s.io/v1/deviceclasses", device_class)
        await self._node("node-xxxx")
        await self._claim("c-xxxxx", "node-xxxx", "gpu-x")
        await self._pod("p-xxxxxx", "c-xxxxx", "node-xxxx")
        for number in range(nodes):
            node = {"node-xxxx": f"node-{number:04}"}
            self._copy(ObjectKey("nodes", "", "node-xxxx"), node)
            self._copy(ObjectKey("resourceslices.resource.k8s.io", "", "node-xxxx"), node)
        for number in range(claims):
            node = {"node-xxxx": f"node-{number // GPUS % nodes:04}", "gpu-x": f"gpu-{number % GPUS}"}
            key = ObjectKey("resourceclaims.resource.k8s.io", NAMESPACE, "c-xxxxx")
            self._copy(key, {"c-xxxxx": f"c-{number:05}", **node})
        for number in range(pods):
            claim = number % claims
            words = {"c-xxxxx": f"c-{claim:05}", "node-xxxx": f"node-{claim // GPUS % nodes:04}"}
            self._copy(ObjectKey("pods", NAMESPACE, "p-xxxxxx"), {"p-xxxxxx": f"p-{number:06}", **words})
        for path in ("/api/v1/nodes/node-xxxx", f"{CLAIMS}/c-xxxxx", f"{PODS}/p-xxxxxx"):
            await self.write("DELETE", path, {"gracePeriodSeconds": 0})
        await self.write("DELETE", "/apis/resource.k8s.io/v1/resourceslices/node-xxxx", {})
        await self.write("POST", CLAIMS, _claim("waits"))
        await self.write("POST", PODS, _pod("waits", "waits"))

    def _copy(self, key: ObjectKey, words: dict[str, str]) -> None:
        """Put a copy of an object into the store with other words; a hundred thousand requests would take minutes."""
        store, raw = self._server.store, self._original(key)
        for word, other in words.items():
            raw = raw.replace(word.encode(), other.encode())
        self._copies += 1
        raw = _UID.sub(b'"uid":"%08x-0000-4000-8000-000000000000"' % self._copies, raw, count=1)
        raw = _VERSION.sub(b'"resourceVersion":"%d"' % store.next_revision, raw, count=1)
        store.put(key._replace(name=words[key.name]), raw)

    def _original(self, key: ObjectKey) -> bytes:
        original = self._server.store.get(key)
        if original is None:
            raise SystemExit(f"{key} was not created")
        return original.raw

    async def _node(self, name: str) -> None:
        labels = {"kubernetes.io/hostname": name}
        await self.write("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        ready = {"type": "Ready", "status": "True"}
        room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        status = {"conditions": [ready], "allocatable": room, "capacity": room}
        await self.write("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        taints = {"spec": {"taints": None}}
        await self.write("PATCH", f"/api/v1/nodes/{name}", taints)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{index}", "attributes": {"index": {"int": index}}} for index in range(GPUS)]
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        await self.write("POST", "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": name}, "spec": spec})

    async def _claim(self, name: str, node: str, device: str) -> None:
        await self.write("POST", CLAIMS, _claim(name))
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation = {
            "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            "allocationTimestamp": "2026-11-21T00:00:00Z",
        }
        await self.write("PATCH", f"{CLAIMS}/{name}/status", {"status": {"allocation": allocation}})

    async def _pod(self, name: str, claim: str, node: str) -> None:
        body = _pod(name, claim)
        body["spec"]["nodeName"] = node
        await self.write("POST", PODS, body)
        started = {"type": "PodReadyToStartContainers", "status": "True"}
        status = {"phase": "Running", "conditions": [started]}
        await self.write("PATCH", f"{PODS}/{name}/status", {"status": status})


def _claim(name: str) -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER}
    return {
        "metadata": {"name": name, "annotations": {"reserve.dra/reserved-for": "jobs.batch/train"}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def _pod(name: str, claim: str) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "env": [STUFFING], "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "labels": {"app": "train"}},
        "spec": {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]},
    }


def started(folder: Path, command: tuple[str, ...]) -> tuple[float, float, float]:
    """Run a command to its end; return its seconds, those of a CPU, and the most MiB that it had."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}  # as pip leaves it
    environment = {**os.environ, **compiled, "KUBECONFIG": str(folder / "kubeconfig"), "NO_COLOR": "1"}
    most = 0.0
    with (folder / "output").open("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)  # noqa: S603 - our own
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            with contextlib.suppress(OSError, KeyError):  # it has ended
                _, peak = memory(process.pid)
                most = max(most, peak)
            time.sleep(0.005)  # noqa: TID251 - in a thread of its own, while another process works
        spent = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            output.seek(0)
            raise SystemExit(f"{' '.join(command)}: {output.read()}")
    return spent, usage.ru_utime + usage.ru_stime, most


def _measured(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the commands of the rows, with two that read the same list and explain nothing."""
    bundle = str(folder / "bundle.tgz")
    commands = {f"`{name}`": (*KUBECTL_DRA, *words) for name, words in COMMANDS.items()}
    commands["`bundle`"] += (f"--file={bundle}",)
    commands[f"`{FROM_BUNDLE}`"] = (*KUBECTL_DRA, "explain", "claim", "c-00000", f"--from={bundle}")
    commands[LIST_ALONE] = (sys.executable, "-m", "bench.pod_list", NAMESPACE)
    if KUBECTL is not None:
        cache = f"--cache-dir={folder / 'cache'}"
        commands["`kubectl get pods -o name`"] = (KUBECTL, "get", "pods", f"--namespace={NAMESPACE}", "-o=name", cache)
    return commands


async def measure(chosen: argparse.Namespace) -> str:
    """Return the table."""
    server = Server()
    await server.fill(pods=chosen.pods, claims=chosen.claims, nodes=chosen.nodes)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        rows = []
        async with serve_https(server.handle, folder=folder):
            await asyncio.to_thread(started, folder, (*KUBECTL_DRA, *COMMANDS["audit"]))  # compiles
            for name, command in _measured(folder).items():
                runs = [await asyncio.to_thread(started, folder, command) for _ in range(chosen.runs)]
                spent, cpu = min(run[0] for run in runs), min(run[1] for run in runs)
                rows.append(f"| {name} | {spent:.2f} | {cpu:.2f} | {max(run[2] for run in runs):.0f} |")
    head = (
        f"{chosen.pods:,} pods, {chosen.claims:,} claims, {chosen.nodes:,} nodes; the best of {chosen.runs} runs; "
        f"Python {platform.python_version()}, {os.cpu_count()} cores. "
        f"Page sizes asked for: {', '.join(sorted(server.limits))}."
    )
    return f"{head}\n\n| command | s | s of a CPU | MiB at most |\n|---|---:|---:|---:|\n" + "\n".join(rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--claims", type=int, default=2_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"put the table into {readme.README.name}")
    chosen = parser.parse_args()
    text = asyncio.run(measure(chosen))
    print(text)
    if chosen.write:
        readme.write(text, mark=MARK)


if __name__ == "__main__":
    main()
