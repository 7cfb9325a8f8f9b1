"""Passes what is known of a cluster, and every change, to a feed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from dra.cli.page.cluster_feed import ClusterFeed
from dra.cli.page.shared_cluster import KINDS, FollowedKind, SharedCluster
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.snapshot import Snapshot
from dra.kube.resources import NODE_METRICS, POD_MIGRATION_JOBS, RESERVATIONS, Resource


class FeedListener:
    """A feed that listens to a cluster: without a subclass, to all that the cluster can be read of."""

    def __init__(self, cluster: SharedCluster, feed: ClusterFeed) -> None:
        self.cluster = cluster
        self.feed = feed

    def covers(self, resource: Resource, namespace: str) -> bool:
        """Report whether the feed shows objects of a kind in a namespace ("": the kind has none)."""
        del resource, namespace
        return True

    def cut(self, surroundings: Snapshot) -> Snapshot:
        """Return the kinds that are not watched, as far as the feed shows them, with all gaps."""
        return msgspec.structs.replace(surroundings, namespace=self.cluster.namespace, gaps=self.cluster.gaps())

    def start(self) -> None:
        """Pass everything that is known to the feed, and listen to changes."""
        served = {
            resource: resource not in self.cluster.absent and self.covers(resource, "")
            for resource in (RESERVATIONS, POD_MIGRATION_JOBS, NODE_METRICS)
        }
        self.feed.queue(
            partial(
                self.feed.cluster.set_served,
                reservations=served[RESERVATIONS],
                migrations=served[POD_MIGRATION_JOBS],
                node_metrics=served[NODE_METRICS],
            )
        )
        for kind in KINDS:
            for item in self.cluster.objects(kind.resource):
                self.object_changed(kind, item, kind.observe)
        if self.cluster.surroundings is not None:
            self.surroundings_changed(self.cluster.surroundings)
        for resource, why in self.cluster.notes.items():
            self.status_changed(resource, why)
        self.cluster.add_listener(self)

    def stop(self) -> None:
        """Stop listening to the cluster."""
        self.cluster.remove_listener(self)

    # What the cluster says:

    def object_changed(self, kind: FollowedKind, item: Any, change: Callable[[LiveCluster, Any], None]) -> None:  # noqa: ANN401 - an object of the kind
        """Apply a change of an object that the feed shows."""
        if not self.covers(kind.resource, item.metadata.namespace):
            return
        self.feed.queue(partial(change, self.feed.cluster, item))
        if kind.resource in {RESERVATIONS, POD_MIGRATION_JOBS}:
            self.feed.queue(self.feed.tables.mark_sums_due)

    def surroundings_changed(self, snapshot: Snapshot) -> None:
        """Replace the kinds that are not watched, as far as the feed shows them."""
        self.feed.queue(partial(self.feed.cluster.set_surroundings, self.cut(snapshot)))

    def status_changed(self, kind: str, why: str) -> None:
        """Record why a kind is not up to date."""
        self.feed.queue(partial(self.feed.tables.set_note, kind, why))

    def kinds_changed(self) -> None:
        """Begin again, because a kind can be read that could not be read before."""
        self.stop()
        self.feed.restart()
        self.start()
