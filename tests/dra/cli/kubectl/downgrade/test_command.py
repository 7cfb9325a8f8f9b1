"""The conversion of a cluster's claims against a server: all at once, killed anywhere, and beside a controller."""

import asyncio
from pathlib import Path

import pytest
import yaml

from dra.cli.kubectl.checklist import CheckState, is_ready
from dra.cli.kubectl.downgrade import stand_down
from dra.cli.kubectl.downgrade.cluster_checks import INSTALLATION_POLICIES, PLUGIN_POLICIES, DowngradeCheckOptions
from dra.cli.kubectl.downgrade.command import DowngradeOptions, _format_report, _run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.downgrade import DowngradeState
from dra.kube.leader_election import LeaderElector, StoodDownError
from dra.kube.lease_rules import STAND_DOWN
from dra.model import workload_reservations
from dra.model.autoscalers import DO_NOT_DISRUPT, KEPT_NODE, SCALE_DOWN_DISABLED
from tests.dra.cli.kubectl.downgrade.conftest import FINALIZER, Killed
from tests.dra.cli.kubectl.downgrade.test_cluster_checks import PAUSING

ROOT = Path(__file__).resolve().parents[5]
LEASE = ("dra-reserve", "dra-reserve-controller")


def options(**more):
    checks = DowngradeCheckOptions(lease=LEASE, purge=more.pop("purge", False))
    return DowngradeOptions(**{"checks": checks, "namespace": None, "given_up": frozenset(), "apply": True} | more)


def uids(pods):
    return {pod["metadata"]["uid"] for pod in pods}


async def workload_with_pods(cluster, count, *, name="train", listed=0):
    job = await cluster.add_job(name)
    pods = await cluster.add_pods(name, count, claim=name)
    await cluster.add_claim(name, workload=job, listed=pods[:listed])
    return pods


def states(report):
    return {each.claim[1]: each.state for each in report.unready_claims}


async def test_without_apply_nothing_is_changed(cluster):
    await workload_with_pods(cluster, 3, listed=1)
    before = cluster.server.store.revision
    report = await _run(cluster.connection(), options(apply=False))
    assert states(report) == {"train": DowngradeState.CONVERTIBLE}
    assert cluster.server.store.revision == before


async def test_every_pod_is_listed_and_what_is_ours_is_gone(cluster):
    pods = await workload_with_pods(cluster, 5, listed=2)
    report = await _run(cluster.connection(), options())
    assert report.unready_claims == []
    assert is_ready(report.steps), report.steps
    claim = await cluster.get_claim("train")
    assert await cluster.listed("train") == uids(pods)
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["metadata"]["annotations"] == {workload_reservations.RESERVED_FOR: "jobs.batch/train"}
    lease = await stand_down.get_lease(cluster.connection().client, LEASE)
    assert lease.is_stood_down
    assert lease.spec.holder_identity == ""


async def test_no_node_stays_kept_from_autoscalers_by_the_controller(cluster):
    by_a_person = {SCALE_DOWN_DISABLED: "true", "other": "x"}
    annotations = {**by_a_person, DO_NOT_DISRUPT: "true", KEPT_NODE: DO_NOT_DISRUPT}
    await cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": "n1", "annotations": annotations}})
    report = await _run(cluster.connection(), options(apply=False))
    assert [step.detail for step in report.steps if step.check == "nodes" and step.state is CheckState.MISSING] == [
        "kept from autoscalers by annotations of dra-reserve: n1"
    ]
    report = await _run(cluster.connection(), options())
    assert is_ready(report.steps), report.steps
    node = await cluster.request("GET", "/api/v1/nodes/n1")
    assert node["metadata"]["annotations"] == by_a_person


async def test_doing_it_twice_is_doing_it_once(cluster):
    await workload_with_pods(cluster, 3)
    await _run(cluster.connection(), options())
    connection = cluster.connection()
    version = (await cluster.get_claim("train"))["metadata"]["resourceVersion"]
    report = await _run(connection, options())
    assert report.unready_claims == []
    assert (await cluster.get_claim("train"))["metadata"]["resourceVersion"] == version


async def kill_everywhere(cluster, **when):
    try:
        return await _run(cluster.connection(**when), options())
    except Killed:
        return None


@pytest.mark.parametrize("moment", ["dies_before", "dies_after"])
@pytest.mark.parametrize("number", range(1, 12))
async def test_killed_anywhere_and_started_again_it_comes_to_the_same_end(cluster, moment, number):
    pods = await workload_with_pods(cluster, 4, listed=1)
    gone = await cluster.add_claim("over", uid="uid-of-a-job-that-is-gone")
    await cluster.add_pods("late", 1, claim="train", node="", phase="", gates=[SCHEDULING_GATE])
    report = await kill_everywhere(cluster, **{moment: number})
    listed = await cluster.listed("train")
    assert uids(pods[:1]) <= listed
    if report is None:
        report = await _run(cluster.connection(), options())
    assert report.unready_claims == []
    assert is_ready(report.steps), report.steps
    assert await cluster.listed("train") == uids(pods)
    over = await cluster.get_claim("over")
    assert "allocation" not in over.get("status", {})
    assert not over["metadata"].get("finalizers")
    assert gone["metadata"]["uid"] == over["metadata"]["uid"]


async def test_400_pods_are_refused_with_the_claim_named_and_what_to_do(cluster):
    await workload_with_pods(cluster, 260, name="huge")
    pods = await workload_with_pods(cluster, 2, name="small")
    before = await cluster.get_claim("huge")
    report = await _run(cluster.connection(), options())
    assert states(report) == {"huge": DowngradeState.TOO_MANY}
    assert await cluster.get_claim("huge") == before
    assert await cluster.listed("small") == uids(pods)
    told = _format_report(report, PrintOptions())
    assert "260 pods use the claim, and its list has room for 256" in told
    assert "claim ml/huge: let at most 256 pods use the claim, which ends the work of the others" in told


async def test_a_workload_without_pods_keeps_its_claim_until_somebody_gives_it_up(cluster):
    job = await cluster.add_job("idle")
    await cluster.add_claim("idle", workload=job)
    report = await _run(cluster.connection(), options())
    assert states(report) == {"idle": DowngradeState.OWNER}
    assert "--apply --give-up ml/idle" in _format_report(report, PrintOptions())
    report = await _run(cluster.connection(), options(given_up=frozenset({("ml", "idle")})))
    assert report.unready_claims == []
    assert "allocation" not in (await cluster.get_claim("idle")).get("status", {})


async def test_only_our_gate_is_taken_off(cluster):
    await cluster.add_pods("a", 1, claim="none", node="", phase="", gates=["example.com/other", SCHEDULING_GATE])
    await _run(cluster.connection(), options())
    pod = await cluster.request("GET", cluster.path("pods", "a-0"))
    assert pod["spec"]["schedulingGates"] == [{"name": "example.com/other"}]


async def test_a_purge_leaves_no_annotation(cluster):
    await workload_with_pods(cluster, 1)
    await _run(cluster.connection(), options(purge=True))
    assert not (await cluster.get_claim("train"))["metadata"].get("annotations")


def controller(cluster, identity="controller", **options):
    return LeaderElector(cluster.connection().client, key=LEASE, identity=identity, clock=cluster.clock, **options)


async def test_a_controller_that_acts_stands_down_first(cluster):
    pods = await workload_with_pods(cluster, 2)
    acting = controller(cluster)
    await acting.acquire()

    async def act():
        try:
            await acting.renew()
        except StoodDownError:
            await acting.release()

    running = asyncio.create_task(act())
    await asyncio.sleep(10)
    report = await _run(cluster.connection(), options())
    assert running.done()
    assert report.unready_claims == []
    assert await cluster.listed("train") == uids(pods)


async def test_a_controller_that_does_not_know_of_standing_down_is_not_worked_against(cluster):
    await workload_with_pods(cluster, 2)
    deaf = controller(cluster, ignore_stand_down=True)
    await deaf.acquire()
    holding = asyncio.create_task(deaf.renew())
    before = await cluster.get_claim("train")
    with pytest.raises(FailedError, match=r"controller renews it and does not stand down.*Stop that controller"):
        await _run(cluster.connection(), options())
    assert await cluster.get_claim("train") == before
    holding.cancel()


async def test_after_a_kill_no_controller_comes_back_by_itself(cluster):
    await workload_with_pods(cluster, 2)
    assert await kill_everywhere(cluster, dies_after=3) is None
    returning = controller(cluster)
    waiting = asyncio.create_task(returning.acquire())
    await asyncio.sleep(60)
    assert not waiting.done()
    waiting.cancel()
    lease = await stand_down.get_lease(cluster.connection().client, LEASE)
    assert lease.metadata.annotations[STAND_DOWN] == "kubectl dra downgrade"


async def deployment_without_a_lease(cluster, *, ready):
    labels = {"app.kubernetes.io/name": "dra-reserve"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = cluster.path("deployments", namespace="dra-reserve", group="apis/apps/v1")
    await cluster.request("POST", path, {"metadata": {"name": "c", "labels": labels}, "spec": spec})
    status = {"replicas": 1, "readyReplicas": ready, "availableReplicas": ready}
    await cluster.request("PATCH", f"{path}/c/status", {"status": status}, patch=True)


async def test_a_deployment_without_a_lease_is_not_worked_against(cluster):
    await deployment_without_a_lease(cluster, ready=1)
    with pytest.raises(FailedError, match="no lease dra-reserve/dra-reserve-controller shows whether it runs"):
        await _run(cluster.connection(), options())


async def test_a_deployment_that_never_became_ready_is_made_to_stand_down(cluster):
    """After a failed first installation the command ended with exit code 2, and uninstall asked for that command."""
    await deployment_without_a_lease(cluster, ready=0)
    report = await _run(cluster.connection(), options())
    controllers = next(step for step in report.steps if step.check == "controller")
    assert controllers.state is CheckState.OK
    lease = await stand_down.get_lease(cluster.connection().client, LEASE)
    assert lease.is_stood_down


async def test_a_namespace_that_is_being_deleted_is_no_obstacle(cluster):
    await cluster.request("POST", cluster.path("configmaps", namespace="dra-reserve"), held("c"))
    await cluster.request("DELETE", "/api/v1/namespaces/dra-reserve")
    report = await _run(cluster.connection(), options())
    assert next(step for step in report.steps if step.check == "controller").state is CheckState.OK


def held(name):
    """A ConfigMap that keeps its namespace from being gone."""
    return {"metadata": {"name": name, "finalizers": ["example.com/hold"]}}


def policies(*folders):
    """The names of all admission policies in some folders of deploy/."""
    files = (file for folder in folders for file in (ROOT / "deploy" / folder).glob("*.yaml"))
    objects = [obj for file in files for obj in yaml.safe_load_all(file.read_text())]
    return {obj["metadata"]["name"] for obj in objects if obj and "AdmissionPolicy" in obj.get("kind", "")}


def test_the_policies_of_the_plugin_are_known():
    of_colocation = {name for name in policies("colocation") if name.startswith("own-node-")}
    assert policies("kubelet-plugin", "node-topology", "koordinator-devices") | of_colocation == PLUGIN_POLICIES


def test_the_policies_that_come_with_the_manifests_are_known_and_none_of_them_makes_pods_wait():
    of_colocation = {name for name in policies("colocation", "colocation-profiles") if not name.startswith("own-node-")}
    assert (
        policies("kustomize/base", "policies", "reservations", "descheduler", "koordinator") | of_colocation
        == INSTALLATION_POLICIES | PAUSING
    )
