"""The feed of a user who reads a cluster with a kubeconfig: the shared cluster, shared by one user."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dra.cli.kubectl.connection import Connection
from dra.cli.page.cluster_feed import ClusterFeed
from dra.cli.page.feed_listener import FeedListener
from dra.cli.page.patch_stream import PatchStream
from dra.cli.page.shared_cluster import SharedCluster
from dra.kube.store import ServerRestoredError
from dra.kube.tasks import background_task


@asynccontextmanager
async def own_feed(connection: Connection, *, namespace: str, lease_namespace: str) -> AsyncIterator[ClusterFeed]:
    """Yield the feed of a cluster; the block is cancelled when the cluster cannot be read.

    ``namespace``: the namespace that is read where the user may not list all of them.
    """
    feed = ClusterFeed(PatchStream(secrets.token_hex(4)))
    work = _follow(connection, feed, namespace=namespace, lease_namespace=lease_namespace)
    try:
        async with background_task(work, name="follow the cluster"):
            yield feed
    finally:
        feed.close()


async def _follow(connection: Connection, feed: ClusterFeed, *, namespace: str, lease_namespace: str) -> None:
    """Follow the cluster; after a restore from a backup, read everything again. Raise ApiError."""
    while True:
        cluster = SharedCluster(connection, lease_namespace=lease_namespace, own_namespace=namespace)
        listener = FeedListener(cluster, feed)
        try:
            async with background_task(cluster.run(), name="cluster"):
                await cluster.wait_until_filled()
                listener.start()
                feed.listed.set()
                await feed.run()
        except* ServerRestoredError:
            listener.stop()
            feed.restart()
