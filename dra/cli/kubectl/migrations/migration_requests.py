"""Creates PodMigrationJobs, at most one unfinished job for each pod.

The name of a job (`next_job_name`) follows from its pod, so that two commands at the same time create one job.
"""

from collections.abc import Iterable

from dra.api.migration.model import PodMigrationJob
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.migrations.migration_texts import NOT_INSTALLED
from dra.engine.diagnosis import migrations as explaining
from dra.engine.migration.job_manifests import MigrationRequest, next_job_name, requested_job
from dra.engine.migration.view import MigrationPod
from dra.kube.client import Client, Selection
from dra.kube.errors import AlreadyExists, NotFound
from dra.kube.resources import POD_MIGRATION_JOBS, PODS
from dra.model.meta import Struct, UnstructuredObject


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
    name = next_job_name(pod.metadata, {job.metadata.name for job in existing})
    try:
        await client.create(
            POD_MIGRATION_JOBS, requested_job(pod.metadata, request, name=name), model=UnstructuredObject
        )
    except AlreadyExists:  # another command was faster
        return RequestedMigration(pod=pod, job=name, created=False)
    except NotFound as error:
        raise FailedError(NOT_INSTALLED) from error
    return RequestedMigration(pod=pod, job=name, created=True)


async def read_jobs(client: Client) -> dict[str, PodMigrationJob]:
    """Return the readable jobs by name."""
    return {job.metadata.name: job for job in explaining.parse_jobs(await list_jobs(client))}
