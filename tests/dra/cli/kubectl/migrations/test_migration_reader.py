"""What is read of a cluster for an answer about migrations."""

import pytest

from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.migrations.migration_reader import _read
from dra.engine.diagnosis.snapshot import ControllerPresence
from tests.dra.cli.kubectl.migrate.conftest import DEFINITIONS, JOBS, Site, pytest_asyncio_loop_factories, site

__all__ = ["pytest_asyncio_loop_factories", "site"]

LEASE = "dra-reserve"


async def add_job(site: Site, pod, *, phase=""):
    spec = {"podRef": {"namespace": "default", "name": pod}}
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "spec": spec}
    await site.request("POST", JOBS, {**body, "metadata": {"name": f"move-{pod}"}})
    if phase:
        await site.set_status(f"move-{pod}", phase=phase)


async def test_only_pods_of_unfinished_jobs_are_read(site):
    for name in ("web-a", "web-b", "web-c"):
        await site.add_pod(name)
    await add_job(site, "web-a")
    await add_job(site, "web-b", phase="Succeeded")
    await add_job(site, "gone")
    found = await _read(site.connection(), LEASE, name=None)
    assert [pod.metadata.name for pod in found.pods] == ["web-a"]
    assert len(found.migrations) == 3
    assert found.descheduler.presence is ControllerPresence.ABSENT


async def test_of_one_job_the_budgets_of_its_namespace_are_read_too(site):
    await site.add_pod("web-a")
    await add_job(site, "web-a")
    budget = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}}
    await site.request("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert (await _read(site.connection(), LEASE, name=None)).budgets == ()
    found = await _read(site.connection(), LEASE, name="move-web-a")
    assert [each.metadata.name for each in found.budgets] == ["web"]


async def test_without_the_kind_it_is_an_error_that_says_what_to_install(site):
    await site.request("DELETE", f"{DEFINITIONS}/podmigrationjobs.scheduling.koordinator.sh")
    with pytest.raises(FailedError, match="install component descheduler"):
        await _read(site.connection(), LEASE, name=None)
