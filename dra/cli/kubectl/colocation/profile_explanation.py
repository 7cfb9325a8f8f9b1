"""Implements ``kubectl dra colocation why``, for a pod that exists, and for pods that are only in manifests."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.colocation.profile_reader import ReadProfiles, read_profiles
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.koordinator_requests import POD_TEMPLATES, pod_at
from dra.cli.kubectl.manifests import MalformedManifestError, flatten_lists, load_documents
from dra.cli.kubectl.printers import print_to_stderr
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.engine.profiles.explanation import explain
from dra.engine.translation import pod_fields
from dra.kube.errors import NotFound
from dra.kube.resources import NAMESPACES, PODS
from dra.model.meta import PartialObjectMetadata, Struct, UnstructuredObject


class Subject(Struct, frozen=True):
    """A pod to explain."""

    namespace: str
    content: Mapping[str, Any]
    prefix: str = ""
    """The object of a manifest that the pod is of, before each line."""

    is_created: bool = True


def explain_pods(
    *, pod: str | None, filenames: Sequence[str], cluster_flags: ClusterFlags, namespace: str | None
) -> None:
    """Run ``kubectl dra colocation why``; the declaration describes the options."""
    if bool(pod) == bool(filenames):
        raise click.UsageError("give the name of a pod, or manifests with -f")
    source = SnapshotSource(cluster_flags=cluster_flags, requested_namespace=namespace)
    given = list(manifest_pods(filenames, requested=namespace, default=source.namespace))
    if filenames and not given:
        raise FailedError("no pods and no pod templates in the manifests")

    async def work(connection: Connection) -> bool:
        subjects = [await _read_pod(connection, source.namespace, pod)] if pod else given
        read = await read_profiles(connection)
        applied = [await _print_answers(connection, subject, read) for subject in subjects]
        _print_others(read)
        return all(applied)

    if not run(cluster_flags, work):
        raise SystemExit(1)


def manifest_pods(filenames: Sequence[str], *, requested: str | None, default: str) -> Iterator[Subject]:
    """Yield the pods and pod templates of manifests; raise FailedError if a manifest cannot be read."""
    try:
        for manifest in flatten_lists(load_documents(filenames)):
            kind, metadata = str(manifest.get("kind", "")), manifest.get("metadata")
            path = POD_TEMPLATES.get((str(manifest.get("apiVersion", "")), kind))
            pod = None if path is None else pod_at(manifest, path)
            if not isinstance(pod, Mapping) or not isinstance(metadata, Mapping):
                continue
            namespace = requested or str(metadata.get("namespace") or default)
            yield Subject(
                namespace=namespace,
                content={**pod, "metadata": {**pod_fields.mapping(pod.get("metadata")), "namespace": namespace}},
                prefix=f"{kind} {metadata.get('name', '(without a name)')}: ",
                is_created=False,
            )
    except MalformedManifestError as error:
        raise FailedError(str(error)) from error


async def _read_pod(connection: Connection, namespace: str, pod: str) -> Subject:
    name = pod.removeprefix("pod/").removeprefix("pods/")
    try:
        pod_object = await connection.client.get(PODS, (namespace, name), UnstructuredObject)
    except NotFound:
        raise FailedError(
            f"pod {namespace}/{name}: not found. See: kubectl get pods -n {namespace}; for a pod that was refused, "
            "give its manifest with -f"
        ) from None
    return Subject(namespace=namespace, content=pod_object.content)


async def _print_answers(connection: Connection, subject: Subject, read: ReadProfiles) -> bool:
    """Print a line for each profile; return whether one applies."""
    try:
        labels = (await connection.client.get(NAMESPACES, ("", subject.namespace), PartialObjectMetadata)).metadata
    except NotFound:
        raise FailedError(f"namespace {subject.namespace}: not found. See: kubectl get namespaces") from None
    answers = list(
        explain(
            read.evaluation,
            subject.content,
            namespace_labels=labels.labels or {},
            in_effect=read.in_effect_unchanged,
            is_created=subject.is_created,
        )
    )
    for answer in answers:
        click.echo(
            f"{subject.prefix}profile {answer.profile}: {'' if answer.applies else 'does not apply: '}{answer.text}"
        )
    return any(answer.applies for answer in answers)


def _print_others(read: ReadProfiles) -> None:
    """Print what concerns no single pod."""
    for name in read.deleted:
        click.echo(
            f"profile {name}: was deleted, but new pods still get it; see: kubectl dra colocation apply --dry-run"
        )
    if not read.evaluation.outcomes and not read.deleted:
        click.echo("no ClusterColocationProfiles exist")
    elif not read.has_policies:
        print_to_stderr(
            "note: this server has no MutatingAdmissionPolicies (Kubernetes 1.36). A local plane applies profiles "
            "without them; on other servers, only this does: kubectl dra apply --help"
        )
