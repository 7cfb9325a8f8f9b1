"""Implements ``kubectl dra colocation why``."""

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.colocation.profile_reader import ReadProfiles, read_profiles
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.profiles.explanation import Answer, explain
from dra.kube.errors import NotFound
from dra.kube.resources import NAMESPACES, PODS
from dra.model.meta import PartialObjectMetadata, UnstructuredObject


def explain_pod(*, pod: str, cluster_flags: ClusterFlags, namespace: str | None) -> None:
    """Run ``kubectl dra colocation why``; the declaration describes the options."""
    name = pod.removeprefix("pod/").removeprefix("pods/")
    place = SnapshotSource(cluster_flags=cluster_flags, requested_namespace=namespace).namespace

    async def work(connection: Connection) -> tuple[list[Answer], ReadProfiles]:
        try:
            found = await connection.client.get(PODS, (place, name), UnstructuredObject)
        except NotFound:
            raise FailedError(f"pod {place}/{name}: not found. See: kubectl get pods -n {place}") from None
        labels = (await connection.client.get(NAMESPACES, ("", place), PartialObjectMetadata)).metadata.labels or {}
        read = await read_profiles(connection)
        return (
            [*explain(read.evaluation, found.content, namespace_labels=labels, in_effect=read.in_effect_unchanged)],
            read,
        )

    answers, read = run(cluster_flags, work)
    for each in answers:
        click.echo(f"profile {each.profile}: {'' if each.applies else 'does not apply: '}{each.text}")
    for name in read.deleted:
        click.echo(
            f"profile {name}: was deleted, but new pods still get it; see: kubectl dra colocation apply --dry-run"
        )
    if not answers and not read.deleted:
        click.echo("no ClusterColocationProfiles exist")
    if not any(each.applies for each in answers):
        raise SystemExit(1)
