"""Reads the list of pods in pages and decodes nothing of them: what a list costs, whoever reads it.

python -m bench.pod_list NAMESPACE, with the kubeconfig of KUBECONFIG. Prints the bytes of all pages.
"""

import asyncio
import sys

import msgspec

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import connect
from dra.kube.page_reader import PAGE_SIZE
from dra.kube.resources import PODS
from dra.kube.transport import Request


class _PageMeta(msgspec.Struct):
    token: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _PageMeta


async def read_pages(namespace: str) -> int:
    """Return the number of bytes of all pages."""
    size, token = 0, ""
    async with connect(ClusterFlags()) as connection:
        while True:
            query = {"limit": str(PAGE_SIZE)} | ({"continue": token} if token else {})
            request = Request(method="GET", path=PODS.path(namespace), query=query, timeout=60.0)
            body = (await connection.transport.send(request)).body
            size += len(body)
            token = msgspec.json.decode(body, type=_Page).metadata.token
            if not token:
                return size


if __name__ == "__main__":
    print(asyncio.run(read_pages(sys.argv[1])))
