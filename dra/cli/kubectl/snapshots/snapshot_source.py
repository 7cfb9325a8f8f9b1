"""Selects the source of a command that only reads: a cluster or a bundle, and a namespace.

The readers are imported on use: this module declares options of almost every command, and help must not wait for them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.cluster_flags import ClusterFlags, Command
from dra.cli.kubectl.client_flags import client_options
from dra.cli.kubectl.object_names import complete_namespace
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.lazy_group import without_gc
from dra.engine.messages.texts import singularize
from dra.kube.clock import SYSTEM

if TYPE_CHECKING:
    from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
    from dra.engine.diagnosis.descheduling_snapshot import DeschedulingSnapshot
    from dra.engine.diagnosis.snapshot import PodController, Snapshot
    from dra.model.meta import Key
    from dra.model.references import GroupResource

DEFAULT_NAMESPACE: Final = "default"
"""Namespace that kubectl uses when neither the user nor the context names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSource:
    """The source of a snapshot: cluster or bundle, and the selected namespaces."""

    cluster_flags: ClusterFlags
    bundle_path: str | None = None
    requested_namespace: str | None = None
    """The namespace of the command line; None without -n."""

    all_namespaces: bool = False
    lease_namespace: str = NAMESPACE

    @property
    def namespace(self) -> str:
        """The selected namespace, chosen as kubectl does."""
        if self.requested_namespace or self.bundle_path:
            return self.requested_namespace or DEFAULT_NAMESPACE
        from dra.cli.kubectl.failures import FailedError  # noqa: PLC0415 - see the head of the module
        from dra.kube.errors import ApiError  # noqa: PLC0415 - as above

        try:
            return self.cluster_flags.current_namespace() or DEFAULT_NAMESPACE
        except ApiError as error:
            raise FailedError(str(error)) from error

    def now(self, snapshot: Snapshot) -> datetime:
        """Return the time that answers refer to: for a bundle, when it was taken, else the present."""
        if self.bundle_path is not None and snapshot.taken:
            return datetime.fromisoformat(snapshot.taken)
        return SYSTEM.wall()

    def read(self, scope: SnapshotScope, *, node: str = "") -> Snapshot:
        """Return the snapshot; raise FailedError if it cannot be read.

        ``node``: the only node whose NodeMetric is needed.
        """
        from dra.cli.kubectl.connection import run  # noqa: PLC0415 - as above
        from dra.cli.kubectl.failures import FailedError  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots import bundle_file  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader  # noqa: PLC0415 - as above

        if self.bundle_path is not None:
            try:
                return bundle_file.read_bundle(Path(self.bundle_path))
            except bundle_file.MalformedBundleError as error:
                raise FailedError(str(error)) from error
        named = None if self.all_namespaces else self.namespace
        lease = (self.lease_namespace, LEASE_NAME)
        return run(
            self.cluster_flags,
            lambda connection: SnapshotReader(connection, namespace=named, lease=lease).read(scope, node=node),
        )

    def read_around_claim(self, key: Key, scope: SnapshotScope) -> Snapshot:
        """Return a snapshot that explains a claim of a cluster; raise FailedError if it cannot be read."""
        from dra.cli.kubectl.connection import run  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots.claim_reader import read_around_claim  # noqa: PLC0415 - as above

        namespace = None if self.all_namespaces else self.namespace
        lease = (self.lease_namespace, LEASE_NAME)
        return run(
            self.cluster_flags,
            lambda connection: read_around_claim(connection, key, scope, namespace=namespace, lease=lease),
        )

    def read_for_descheduling(self, *, namespace: str | None = None) -> DeschedulingSnapshot:
        """Return a snapshot of the whole cluster with what a round reads; raise FailedError if it cannot be read.

        ``namespace``: the one that is read where the user may not list all.
        """
        from dra.cli.kubectl.connection import run  # noqa: PLC0415 - as above
        from dra.cli.kubectl.failures import FailedError  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots import bundle_file  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots.descheduling_reader import DeschedulingReader  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope  # noqa: PLC0415 - as above

        if self.bundle_path is not None:
            try:
                return bundle_file.read_descheduling_bundle(Path(self.bundle_path))
            except bundle_file.MalformedBundleError as error:
                raise FailedError(str(error)) from error
        lease = (self.lease_namespace, LEASE_NAME)
        return run(
            self.cluster_flags,
            lambda connection: DeschedulingReader(connection, namespace=namespace, lease=lease).read(
                SnapshotScope.BUNDLED
            ),
        )

    def read_workload(self, scope: SnapshotScope, wanted: GroupResource, name: str) -> tuple[Snapshot, PodController]:
        """Return a snapshot and a workload of the selected namespace.

        Raises UnknownWorkloadError if the kind, or in a bundle the object, is unknown, and FailedError as `read` does.
        """
        from dra.cli.kubectl.connection import run  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader  # noqa: PLC0415 - as above
        from dra.cli.kubectl.snapshots.controller_reader import find_controller  # noqa: PLC0415 - as above

        key, lease = (self.namespace, name), (self.lease_namespace, LEASE_NAME)
        if self.bundle_path is not None:
            snapshot = self.read(scope)
            return snapshot, find_controller(snapshot, wanted, name, namespace=self.requested_namespace)
        return run(
            self.cluster_flags,
            lambda connection: SnapshotReader(connection, namespace=key[0], lease=lease).read_workload(
                scope, wanted, key
            ),
        )


bundle_option = click.option(
    "--from",
    "bundle",
    type=click.Path(exists=True, dir_okay=False),
    help="Read a bundle file instead of a cluster; see kubectl dra bundle.",
)
"""``--from``; the command gets it as `bundle`."""

lease_namespace_option = click.option(
    "--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the descheduler and of its lease."
)


def source_options(command: Command) -> Command:
    """Add the options that select the source; the command gets them as `source`."""

    @client_options
    @click.option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        shell_complete=complete_namespace,
        help="Namespace of the objects. Default: the namespace of the context.",
    )
    @click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces.")
    @bundle_option
    @click.option(
        "--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the controller's lease."
    )
    @functools.wraps(command)
    def wrapped(
        *,
        cluster_flags: ClusterFlags,
        namespace: str | None,
        all_namespaces: bool,
        bundle: str | None,
        lease_namespace: str,
        **rest: Any,  # noqa: ANN401 - the command's
    ) -> Any:  # noqa: ANN401 - the command's
        source = SnapshotSource(
            cluster_flags=cluster_flags,
            bundle_path=bundle,
            requested_namespace=namespace,
            all_namespaces=all_namespaces,
            lease_namespace=lease_namespace,
        )
        with without_gc():
            return command(source=source, **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


@click.command()
@source_options
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False, writable=True),
    default="dra-bundle.tgz",
    show_default=True,
    help="File to write.",
)
def bundle(*, source: SnapshotSource, path: str) -> None:
    """Write a redacted snapshot of the cluster to a file for offline diagnosis.

    The file contains claims, nodes, slices, classes, templates, Reservations and disruption budgets, the names, nodes,
    requests, limits, priorities, affinities and restarts of pods, the names, states and replicas of workloads, and the
    names of namespaces. It does not contain commands, images and environment variables of containers, names and
    contents of volumes, secrets, annotations of other projects, labels that no selector names, or driver parameters.
    Every command that reads accepts the file: kubectl dra explain claim NAME --from FILE
    """
    from dra.cli.kubectl.failures import FailedError  # noqa: PLC0415 - as above
    from dra.cli.kubectl.snapshots import bundle_file  # noqa: PLC0415 - as above

    snapshot = source.read_for_descheduling(namespace=None if source.all_namespaces else source.namespace)
    try:
        bundle_file.write_bundle(snapshot, Path(path))
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}") from error
    counts = f"{len(snapshot.claims)} claims, {len(snapshot.pods)} pods, {len(snapshot.nodes)} nodes"
    print_to_stderr(f"{path}: {singularize(counts)}")
