"""A claim is given back from here, where no controller runs, by the controller's rules."""

import pytest

from dra.cli.kubectl.claim_commands import ReleaseOptions, ReleaseRefusedError, release_claim
from dra.cli.kubectl.declarations.management import release
from dra.cli.kubectl.diagnosis import problem_texts
from dra.engine.diagnosis import claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.kube.clock import SYSTEM, rfc3339_micro
from dra.model.workload_reservations import FORCE_RELEASE
from tests.advice import asking
from tests.dra.cli.kubectl.downgrade.conftest import NAMESPACE, Cluster

LEASE = ("dra-reserve", "dra-reserve-controller")
KEY = (NAMESPACE, "train")
DEFAULT_TIMEOUT = next(each.type.convert(each.default, each, None) for each in release.params if each.name == "timeout")
"""Seconds that the printed command has, without an option of its own."""


async def _with_a_ready_node(cluster, name="n1"):
    await cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": {}})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await cluster.request("PATCH", f"/api/v1/nodes/{name}/status", ready, patch=True)


@pytest.fixture
async def vanished():
    """A cluster in which the only pod of a claim went by force, while no controller ran."""
    cluster = Cluster()
    await cluster.start()
    await _with_a_ready_node(cluster)
    (pod,) = await cluster.add_pods("a", 1, claim="train")
    await cluster.add_claim("train", listed=[pod], guarded=False)
    await cluster.request("DELETE", cluster.path("pods", "a-0"), {"gracePeriodSeconds": 0})
    return cluster


async def given_back(cluster, within):
    options = ReleaseOptions(key=KEY, lease=LEASE, timeout=within, if_unused=True)
    return await release_claim(cluster.connection(), options, report=lambda _: None)


async def test_a_pod_that_vanished_is_given_the_time_in_which_its_kubelet_ends_it(vanished):
    """The command was printed right after a forced deletion, and freed the device under the pod's containers."""
    before = vanished.clock.now()
    assert await given_back(vanished, 240.0) == "claim ml/train: released"
    assert vanished.clock.now() - before >= 100.0


async def test_less_time_than_that_is_refused_with_the_reason(vanished):
    with pytest.raises(ReleaseRefusedError, match="vanished before a kubelet reported the end of their containers"):
        await given_back(vanished, 60.0)
    assert (await vanished.get_claim("train"))["status"]["allocation"]


async def _of_a_job_that_is_gone(cluster):
    await cluster.add_claim("train", uid="uid-of-the-job-that-is-gone", guarded=False)


async def _of_a_job_that_is_gone_with_a_guard(cluster):
    await cluster.add_claim("train", uid="uid-of-the-job-that-is-gone")


async def _of_a_finished_job(cluster):
    job = await cluster.add_job("train")
    await cluster.add_claim("train", workload=job, guarded=False)
    await cluster.finish_job("train")


async def _with_the_entry_of_a_pod_that_ended(cluster):
    pods = await cluster.add_pods("a", 1, claim="train", phase="Succeeded")
    await cluster.add_claim("train", listed=pods, guarded=False)


async def _of_a_finished_job_whose_pods_have_ended(cluster):
    job = await cluster.add_job("train")
    pods = await cluster.add_pods("a", 3, claim="train", phase="Succeeded")
    await cluster.add_claim("train", workload=job, listed=pods)
    await cluster.finish_job("train")


async def _with_a_guard_only(cluster):
    await cluster.add_claim("train")


async def _without_entries(cluster):
    await cluster.add_claim("train", guarded=False)


async def _of_a_job_that_was_deleted_by_force_with_its_pods(cluster):
    await _with_a_ready_node(cluster)
    pods = await cluster.add_pods("a", 2, claim="train")
    await cluster.add_claim("train", uid="uid-of-the-job-that-is-gone", listed=pods)
    for pod in pods:
        await cluster.request("DELETE", cluster.path("pods", pod["metadata"]["name"]), {"gracePeriodSeconds": 0})


SITUATIONS = [
    _of_a_job_that_was_deleted_by_force_with_its_pods,
    _of_a_job_that_is_gone,
    _of_a_job_that_is_gone_with_a_guard,
    _of_a_finished_job,
    _of_a_finished_job_whose_pods_have_ended,
    _with_the_entry_of_a_pod_that_ended,
    _with_a_guard_only,
    _without_entries,
]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__.strip("_"))
async def test_the_command_that_is_printed_without_a_controller_releases_the_claim(situation):
    """The command waited for a time that began anew with each read of the list, and gave up after 100 s."""
    cluster = Cluster()
    await cluster.start()
    await situation(cluster)
    diagnosis = claims.explain(ClusterState(await asking.snapshot(cluster.server)), KEY)
    advised = [problem_texts.safe_command(each) for each in diagnosis.problems]
    assert "kubectl dra release claim train -n ml --if-unused" in advised
    assert await given_back(cluster, DEFAULT_TIMEOUT) == "claim ml/train: released"
    claim = await cluster.get_claim("train")
    assert not claim["status"].get("allocation")
    assert not claim["status"].get("reservedFor")


async def test_a_dry_run_says_what_the_command_would_do_at_once_and_writes_nothing():
    cluster = Cluster()
    await cluster.start()
    await _of_a_job_that_is_gone(cluster)
    before, began = await cluster.get_claim("train"), cluster.clock.now()
    options = ReleaseOptions(key=KEY, lease=LEASE, timeout=DEFAULT_TIMEOUT, if_unused=True, dry_run=True)
    text = await release_claim(cluster.connection(), options, report=lambda _: None)
    assert text.startswith("claim ml/train: would be released by this command")
    assert await cluster.get_claim("train") == before
    assert cluster.clock.now() == began


async def test_a_claim_that_is_used_while_the_command_decides_is_not_released_by_the_controller(monkeypatch):
    """The annotation went to any version of the claim, also to one that a pod had entered in between."""
    cluster = Cluster()
    await cluster.start()
    await _with_a_guard_only(cluster)
    now = rfc3339_micro(SYSTEM.wall())  # the command compares leases with the clock of its machine
    lease = {"holderIdentity": "c-1", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}
    leases = cluster.path("leases", namespace=LEASE[0], group="apis/coordination.k8s.io/v1")
    await cluster.request("POST", leases, {"metadata": {"name": LEASE[1]}, "spec": lease})
    connection = cluster.connection()
    send = connection.transport.send

    async def send_after_another_write(request):
        if request.method == "PATCH":
            another = {"metadata": {"labels": {"a": "b"}}}
            await cluster.request("PATCH", cluster.claim_path("train"), another, patch=True)
        return await send(request)

    monkeypatch.setattr(connection.transport, "send", send_after_another_write)
    options = ReleaseOptions(key=KEY, lease=LEASE, timeout=DEFAULT_TIMEOUT, if_unused=True)
    with pytest.raises(ReleaseRefusedError, match="has changed since it was read"):
        await release_claim(connection, options, report=lambda _: None)
    assert FORCE_RELEASE not in (await cluster.get_claim("train"))["metadata"].get("annotations", {})
