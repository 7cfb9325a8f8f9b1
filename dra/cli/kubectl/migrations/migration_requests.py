"""Creates PodMigrationJobs, at most one unfinished job for each pod.

The name of a job has the name and the uid of its pod, so that a repeated command finds the job that an earlier one has
created, and two commands at the same time create one job. A job that has ended leaves its name taken: the next job of
the same pod gets a number.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dra.api.migration.model import PodMigrationJob
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.migrations.migration_texts import NOT_INSTALLED
from dra.engine.diagnosis import migrations as explaining
from dra.engine.migration.view import MigrationPod
from dra.kube.client import Client, Selection
from dra.kube.errors import AlreadyExists, NotFound
from dra.kube.resources import POD_MIGRATION_JOBS, PODS
from dra.model.meta import Struct, UnstructuredObject

NAME_LENGTH_MAX: Final = 200
"""Maximum number of characters of a pod's name in the name of its job."""

UID_LENGTH: Final = 8


class MigrationRequest(Struct, frozen=True, kw_only=True):
    """The options that jobs get; empty options leave the configured default."""

    mode: str = ""
    ttl: str = ""


class RequestedMigration(Struct, frozen=True, kw_only=True):
    """The job of a pod, and whether this command has created the job."""

    pod: MigrationPod
    job: str
    created: bool


async def list_jobs(client: Client) -> list[UnstructuredObject]:
    """Return all PodMigrationJobs; raise FailedError where the server does not know the kind."""
    jobs: list[UnstructuredObject] = []
    try:
        async for page in client.list_pages(POD_MIGRATION_JOBS, UnstructuredObject):
            if page.first:
                jobs.clear()
            jobs += page.items
    except NotFound as error:
        raise FailedError(NOT_INSTALLED) from error
    return jobs


async def list_pods_of_node(client: Client, node: str) -> list[UnstructuredObject]:
    """Return the pods that are bound to a node, in all namespaces."""
    pods: list[UnstructuredObject] = []
    selection = Selection(fields=f"spec.nodeName={node}")
    async for page in client.list_pages(PODS, UnstructuredObject, selection=selection):
        if page.first:
            pods.clear()
        pods += page.items
    return pods


async def request_migration(
    client: Client, pod: MigrationPod, request: MigrationRequest, *, jobs: Iterable[UnstructuredObject]
) -> RequestedMigration:
    """Return the unfinished job of a pod, or create one."""
    existing = tuple(jobs)
    running = explaining.job_of_pod(explaining.parse_jobs(existing), pod.metadata.key, pod.metadata.uid)
    if running is not None:
        return RequestedMigration(pod=pod, job=running.metadata.name, created=False)
    name = next_job_name(pod, {job.metadata.name for job in existing})
    try:
        await client.create(POD_MIGRATION_JOBS, job_manifest(pod, request, name=name), model=UnstructuredObject)
    except AlreadyExists:  # another command was faster
        return RequestedMigration(pod=pod, job=name, created=False)
    except NotFound as error:
        raise FailedError(NOT_INSTALLED) from error
    return RequestedMigration(pod=pod, job=name, created=True)


def next_job_name(pod: MigrationPod, taken: Iterable[str]) -> str:
    """Return the name of the next job of a pod."""
    names = set(taken)
    base = f"{pod.metadata.name[:NAME_LENGTH_MAX].rstrip('-.')}-{pod.metadata.uid[:UID_LENGTH]}"
    count = 1
    name = base
    while name in names:
        count += 1
        name = f"{base}-{count}"
    return name


def job_manifest(pod: MigrationPod, request: MigrationRequest, *, name: str) -> dict[str, Any]:
    """Return the job that migrates a pod."""
    meta = pod.metadata
    options: Mapping[str, str] = {"mode": request.mode, "ttl": request.ttl}
    return {
        "metadata": {"name": name},
        "spec": {
            "podRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            **{key: value for key, value in options.items() if value},
        },
    }


async def read_jobs(client: Client) -> dict[str, PodMigrationJob]:
    """Return the readable jobs by name."""
    return {job.metadata.name: job for job in explaining.parse_jobs(await list_jobs(client))}
