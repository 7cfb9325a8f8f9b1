"""What sampling costs on a node: the agent of colocation as it runs, on real cgroups where it may create them.

python -m bench.node_usage [--pods N] [--seconds S] [--profile] [--write]

The agent watches an API server in the same process, which is idle meanwhile, and steps each second. Without the rights
to create cgroups, files of a recorded machine take their place, which cost less to read.
"""

import argparse
import asyncio
import contextlib
import cProfile
import os
import platform
import pstats
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench import readme
from dra.kube.backoff import JITTER
from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import JSON, Request
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.node_agent import AgentContext, NodeAgent
from kubeletplugin.colocation.options import ColocationOptions
from kubeletplugin.node_events import NodeEventRecorder
from localplane.objects import encode
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.kubeletplugin.cgroups import recorded

NODE = "n1"
CONTROLLERS = ("cpu", "cpuacct", "memory", "cpuset")
CONTAINERS = 2
SUPPRESSION = '{"clusterStrategy": {"enable": true}}'


@contextlib.contextmanager
def real_pods(uids: list[str]) -> Iterator[str]:
    """Create a cgroup of all pods with the cgroups of these pods in each v1 hierarchy; yield its path."""
    made: list[Path] = []

    def create(folder: Path) -> None:
        folder.mkdir()
        made.append(folder)

    top = f"dra-bench-{os.getpid()}"
    try:
        for controller in CONTROLLERS:
            parent = CGROUP_ROOT / controller / top
            for folder in (parent, parent / "kubepods", parent / "kubepods/burstable"):
                create(folder)
            for uid in uids:
                pod = parent / f"kubepods/burstable/pod{uid}"
                create(pod)
                for number in range(CONTAINERS):
                    create(pod / f"{number:064x}")
        yield f"{top}/kubepods"
    finally:
        for folder in reversed(made):
            folder.rmdir()


@contextlib.contextmanager
def pods_of(uids: list[str]) -> Iterator[tuple[ColocationOptions, str]]:
    """Yield the options of an agent on a machine with these pods, and which machine that is."""
    if os.geteuid() == 0 and (CGROUP_ROOT / "cpuacct/cpuacct.usage").exists():
        with real_pods(uids) as kubepods:
            yield ColocationOptions(kubepods=kubepods), "cgroup v1 of the kernel"
        return
    with tempfile.TemporaryDirectory() as folder:
        root = recorded.v2(Path(folder) / "cgroup")
        for uid in uids:
            recorded.add_pod(root, f"kubepods/burstable/pod{uid}", container="c")
        yield ColocationOptions(cgroup_root=root), "recorded files of cgroup v2"


async def create(server: ApiServer, path: str, body: Mapping[str, object]) -> str:
    """Create an object; return its uid."""
    request = Request(method="POST", path=path, body=encode(body), content_type=JSON, timeout=30.0)
    answer = await LocalTransport(server).send(request)
    return str(answer.body.partition(b'"uid":"')[2].partition(b'"')[0].decode())


async def measure(
    pods: int, seconds: float, *, suppression: bool, profile: cProfile.Profile | None
) -> tuple[float, str]:
    """Run an agent for so many seconds; return the CPU seconds that each second has cost, and the machine."""
    server = ApiServer(clock=SYSTEM, random=JITTER)
    client = Client(LocalTransport(server), RateLimiter(1e6, 1e6))
    await create(server, "/api/v1/nodes", {"metadata": {"name": NODE}})
    if suppression:
        namespace = "koordinator-system"
        await create(server, "/api/v1/namespaces", {"metadata": {"name": namespace}})
        body = {"metadata": {"name": "slo-controller-config"}, "data": {"resource-threshold-config": SUPPRESSION}}
        await create(server, f"/api/v1/namespaces/{namespace}/configmaps", body)
    spec = {"nodeName": NODE, "containers": [{"name": f"c{number}", "image": "i"} for number in range(CONTAINERS)]}
    path = "/api/v1/namespaces/default/pods"
    uids = [await create(server, path, {"metadata": {"name": f"p{number}"}, "spec": spec}) for number in range(pods)]
    with pods_of(uids) as (options, machine):
        events, metrics = NodeEventRecorder(client, node=NODE), ColocationMetrics(CollectorRegistry())
        context = AgentContext(node=NODE, options=options, drivers=(), events=events, metrics=metrics)
        running = asyncio.create_task(NodeAgent(client, (), context).run())
        await asyncio.sleep(3.0)  # the first list, and the first opening of the files
        if profile is not None:
            profile.enable()
        began = time.process_time()
        await asyncio.sleep(seconds)
        used = time.process_time() - began
        if profile is not None:
            profile.disable()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return used / seconds, machine


def main() -> None:
    """Print or write the table; with a profile, print that, too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    rows = ["| pods are read | % of a core |", "|---|---:|"]
    for suppression in (False, True):
        cost, machine = asyncio.run(measure(options.pods, options.seconds, suppression=suppression, profile=profile))
        rounds = "each second, while batch pods are held back" if suppression else "each ten seconds"
        rows.append(f"| {rounds} | {100 * cost:.2f} |")
    python = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    table = "\n".join([f"{options.pods} pods, {machine}, {options.seconds:g} s each; {python}.", "", *rows])
    print(table)
    if options.write:
        readme.write(table, mark="node-usage")
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
