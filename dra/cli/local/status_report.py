"""Formats the output of `dra-reserve local status`."""

from collections import Counter

from dra.cli.local.plane_folder import KUBECONFIG_FILE, PlaneFolder, PlaneRecord
from dra.kube import credentials
from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.http import HttpTransport
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import CLAIMS, NODES, PODS
from dra.model.claims import ResourceClaim
from dra.model.nodes import Node
from dra.model.pods import Pod


async def format_status(folder: PlaneFolder, record: PlaneRecord) -> str:
    """Return the lines of the report; raise ApiError."""
    transport = HttpTransport(credentials.find(str(folder / KUBECONFIG_FILE)))
    client = Client(transport, RateLimiter(100.0, 100, clock=SYSTEM))
    try:
        nodes = [n async for page in client.list_pages(NODES, Node) for n in page.items]
        pods = [p async for page in client.list_pages(PODS, Pod) for p in page.items]
        claims = [c async for page in client.list_pages(CLAIMS, ResourceClaim) for c in page.items]
    finally:
        await transport.close()
    placed = Counter(pod.spec.node_name for pod in pods)
    phases = Counter(pod.status.phase or "Pending" for pod in pods)
    allocated = sum(claim.status.allocation is not None for claim in claims)
    pid = f"pid {record.controller_pid}" if record.controller_pid else "is starting"
    controller = f"controller {pid} in mode {record.mode}" if record.controller else "without a controller"
    shape = f"pid {record.pid}, Kubernetes {record.kubernetes}, api {record.api}"
    return "\n".join(
        (
            f"A plane runs at {record.url} since {record.started} ({shape}, {controller}).",
            *([f"Plugins register in {record.runtime}/NODE/plugins_registry."] if record.runtime else []),
            f"nodes   {len(nodes)}",
            *(_node_line(node.metadata.name, placed[node.metadata.name], record) for node in nodes),
            f"pods    {len(pods)}" + "".join(f", {phase.lower()} {count}" for phase, count in sorted(phases.items())),
            f"claims  {len(claims)}, allocated {allocated}",
        )
    )


def _node_line(name: str, pods: int, record: PlaneRecord) -> str:
    if name not in record.plugins:
        return f"  {name}: {pods} pods"
    pid = record.plugins[name]
    return f"  {name}: {pods} pods, plugin {f'pid {pid}' if pid else 'is being started'}"
