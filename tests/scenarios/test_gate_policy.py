"""The gate by admission policy: manifests that know nothing of gates, with and without a controller.

Reports on scheduling gates that others set by webhook are tried here: keptn/lifecycle-toolkit#2937 (a pod that is
created again gets a gate that nobody removes), kubernetes-sigs/kueue#1352 (a gated pod cannot be deleted),
open-policy-agent/gatekeeper#4121 (a mutation of updates stops Jobs), aws/amazon-vpc-resource-controller-k8s#351 (the
API server refuses mirror pods), k8sgpt-ai/k8sgpt#1474 (a diagnosis finds nothing wrong with a gated pod).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios import gate_policy, objects, plugin_of_kubectl, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import listed, revision, started
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import DAEMON_SETS, DISRUPTION_BUDGETS, JOBS, PODS
from tests.scenarios.target import Mode, Target

pytestmark = [pytest.mark.modes(Mode.ALONGSIDE), pytest.mark.needs(Feature.GATE_POLICY)]

OWN: Final = {"name": "own", "resourceClaimTemplateName": "template"}
SHARED: Final = {"name": "shared", "resourceClaimName": "shared"}
FOREIGN: Final = "example.com/other"
MIRROR: Final = {"kubernetes.io/config.mirror": "0123456789abcdef"}
PLAIN: Final = PodShape(claim="shared")


@pytest.fixture
async def opted_in(target: Target, namespace: Namespace) -> AsyncIterator[Namespace]:
    """A namespace whose pods the policy gates, from now on."""
    gate_policy.install(target.admin)
    try:
        await gate_policy.opt_in(namespace)
        yield namespace
    finally:
        gate_policy.remove(target.admin)


@pytest.fixture
async def reserved(opted_in: Namespace) -> Namespace:
    """The same, with a claim that a suspended Job keeps."""
    devices = await opted_in.offer_devices()
    workload = objects.job("keeper", PodShape())
    workload["spec"]["suspend"] = True
    await opted_in.create(workload)
    await opted_in.create(objects.claim("shared", device_class=devices, reserved_for="jobs.batch/keeper"))
    return opted_in


async def test_the_policy_gates_pods_that_share_a_claim_and_no_others(opted_in: Namespace) -> None:
    async def gates(annotations: dict[str, str] | None = None, **spec: Any) -> list[str]:
        return await gate_policy.gates_on_creation(opted_in, PodShape(spec=spec, annotations=annotations or {}))

    assert await gates(resourceClaims=[SHARED]) == [objects.GATE]
    assert await gates(resourceClaims=[OWN, SHARED]) == [objects.GATE]
    assert await gates(resourceClaims=[SHARED], schedulingGates=[{"name": objects.GATE}]) == [objects.GATE]
    assert await gates(resourceClaims=[SHARED], schedulingGates=[{"name": FOREIGN}]) == [FOREIGN, objects.GATE]
    assert await gates(resourceClaims=[SHARED], nodeName="node-000") == []
    assert await gates(resourceClaims=[OWN]) == []
    assert await gates() == []


async def test_the_policy_leaves_pods_alone_that_kubelets_mirror(opted_in: Namespace) -> None:
    """The API server refuses a bound pod with a gate: the kubelet's static pod would run without a mirror pod."""
    name = "static-pod"
    shape = PodShape(annotations=MIRROR, spec={"nodeName": "node-000"})
    made = await opted_in.create(objects.pod(name, shape))
    assert (made["metadata"]["annotations"].keys() & MIRROR.keys(), steps.gates(made)) == (MIRROR.keys(), [])


async def test_the_policy_leaves_namespaces_alone_that_did_not_ask(opted_in: Namespace) -> None:
    await gate_policy.label(opted_in, None)
    await eventually(
        lambda: gate_policy.gates_on_creation(opted_in, PLAIN),
        until=lambda gates: gates == [],
        saying="without the label pods get no gate",
    )


@pytest.mark.modes(Mode.REPLACE, Mode.ALONGSIDE)
@pytest.mark.usefixtures("controller")
async def test_pods_without_a_gate_in_their_manifests_are_gated_listed_and_let_go(reserved: Namespace) -> None:
    await reserved.create(objects.pod("opener", PLAIN))
    await steps.pods_run(reserved, "opener")
    async with reserved.history("shared") as claim, reserved.history("p-7", resource=PODS) as pod:
        await reserved.create_all(objects.pods("p", 10, PLAIN))
        await steps.pods_run(reserved, count=11)
    assert steps.gates(pod.versions[0].object) == [objects.GATE]
    moment = next(revision(version.object) for version in pod.versions if not steps.gates(version.object))
    in_force = steps.in_force(claim, moment)
    assert in_force is not None
    assert "p-7" in listed(in_force)


@pytest.mark.modes(Mode.REPLACE, Mode.ALONGSIDE)
@pytest.mark.usefixtures("controller")
async def test_a_job_of_gated_pods_completes(reserved: Namespace) -> None:
    """The policy sees no updates: the Job controller can remove its finalizers."""
    await reserved.create(objects.job("train", PodShape(claim="shared", run_seconds=1), parallelism=12))
    await eventually(
        lambda: reserved.get(JOBS, "train"),
        until=lambda job: job["status"].get("succeeded") == 12,
        saying="the Job is complete",
    )


@pytest.mark.modes(Mode.REPLACE, Mode.ALONGSIDE)
@pytest.mark.usefixtures("controller")
async def test_pods_that_a_deployment_creates_again_run_again(reserved: Namespace) -> None:
    await reserved.create(objects.deployment("web", PLAIN, replicas=4))
    await steps.pods_run(reserved, count=4)
    first = {pod["metadata"]["name"] for pod in await reserved.all(PODS)}
    await reserved.api.delete_collection(PODS, namespace=reserved.name, grace_seconds=0)

    def have_followed(pods: list[Json]) -> bool:
        later = [pod for pod in pods if pod["metadata"]["name"] not in first]
        return len(later) == 4 and all(map(started, later))

    await eventually(lambda: reserved.all(PODS), until=have_followed, saying="four others run")


@pytest.mark.usefixtures("controller")
async def test_the_pods_of_a_daemon_set_run_on_their_nodes(reserved: Namespace) -> None:
    daemons = objects.deployment("agent", PLAIN)
    del daemons["spec"]["replicas"]
    await reserved.create(daemons | {"kind": DAEMON_SETS.kind})

    def all_ready(daemon_set: Json) -> bool:
        status = daemon_set.get("status", {})
        return 0 < status.get("desiredNumberScheduled", 0) == status.get("numberReady", 0)

    await eventually(
        lambda: reserved.get(DAEMON_SETS, "agent"), until=all_ready, saying="the DaemonSet runs on every node"
    )


@pytest.mark.modes(Mode.REPLACE, Mode.ALONGSIDE)
@pytest.mark.usefixtures("controller")
async def test_pods_whose_claim_is_kept_for_nobody_are_let_go(opted_in: Namespace) -> None:
    devices = await opted_in.offer_devices()
    await opted_in.create(objects.claim("shared", device_class=devices))
    await opted_in.create_all(objects.pods("p", 8, PLAIN))
    await steps.pods_run(opted_in, count=8)


async def test_without_a_controller_pods_wait_and_ungate_is_the_way_out(reserved: Namespace, target: Target) -> None:
    await reserved.create(objects.deployment("web", PLAIN, replicas=3))
    gated = await eventually(lambda: reserved.all(PODS), until=lambda pods: len(pods) == 3, saying="pods are created")
    name = gated[0]["metadata"]["name"]
    diagnosis = await plugin_of_kubectl.explained(target.admin, f"pod/{name}", reserved.name)
    assert "kubectl dra ungate" in str(diagnosis["problems"])
    await steadily(lambda: _all_gated(reserved), lasting=2, saying="nobody removes the gate")

    code, text = await plugin_of_kubectl.dra(target.admin, "ungate", reserved.name)
    assert (code, "removed from 3 pods" in text) == (0, True), text
    await steps.pods_run(reserved, count=3)
    await reserved.api.delete(PODS, name, namespace=reserved.name, grace_seconds=0)
    await eventually(
        lambda: reserved.all(PODS),
        until=lambda pods: len(pods) == 3 and all(map(started, pods)),
        saying="the next pod gets no gate",
    )


async def test_an_installation_is_not_removed_while_anything_waits_for_the_gate(
    reserved: Namespace, target: Target
) -> None:
    await reserved.create(objects.pod("p", PLAIN))
    blocking = await _blocking_steps(target)
    assert f"{reserved.name}/p" in blocking["gates"]
    assert reserved.name in blocking["namespaces"]
    assert "mutatingadmissionpolicies/gate.reserve.dra" in blocking["policies"]
    await plugin_of_kubectl.dra(target.admin, "ungate", reserved.name)
    blocking = await _blocking_steps(target)
    assert f"{reserved.name}/p" not in blocking.get("gates", "")
    assert reserved.name not in blocking.get("namespaces", "")


async def test_an_installation_with_gate_plans_the_policy_and_the_label(namespace: Namespace, target: Target) -> None:
    _, text = await plugin_of_kubectl.dra(
        target.admin, "install", "--dry-run", f"--gate={namespace.name}", "--output=json"
    )
    plan = json.loads(text)
    actions = {f"{write['kind']}/{write['name']}": write["action"] for write in plan["objects"]}
    assert actions["MutatingAdmissionPolicy/gate.reserve.dra"] == "create"
    assert actions["MutatingAdmissionPolicyBinding/gate.reserve.dra"] == "create"
    assert actions[f"Namespace/{namespace.name}"] == "change"
    assert "none starts while no controller works" in str(plan["notes"])


async def test_gated_pods_can_be_evicted_and_deleted_without_a_controller(reserved: Namespace) -> None:
    budget = {"minAvailable": "100%", "selector": {"matchLabels": {"app": "web"}}}
    await reserved.create(
        {"apiVersion": "policy/v1", "kind": DISRUPTION_BUDGETS.kind, "metadata": {"name": "all"}, "spec": budget}
    )
    await reserved.create_all(objects.pods("p", 2, PodShape(claim="shared", labels={"app": "web"})))
    path = PODS.path(namespace=reserved.name, name="p-0", subresource="eviction")
    await reserved.api.request(
        "POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p-0"}}
    )
    await reserved.api.delete(PODS, "p-1", namespace=reserved.name)
    await eventually(lambda: reserved.all(PODS), until=lambda pods: not pods, saying="both pods are gone")


async def test_the_command_of_the_runbook_lets_all_pods_go(reserved: Namespace, target: Target) -> None:
    """It needs neither the plugin nor the right to change the namespace."""
    await reserved.create_all(objects.pods("p", 3, PLAIN))
    names = [f"pod/p-{number}" for number in range(3)]
    patch = '{"spec":{"schedulingGates":[{"name":"reserve.dra/claim","$patch":"delete"}]}}'
    kubectl("patch", f"--namespace={reserved.name}", *names, f"--patch={patch}", kubeconfig=target.admin)
    await steps.pods_run(reserved, count=3)


@pytest.mark.modes(Mode.REPLACE, Mode.ALONGSIDE)
async def test_pods_that_waited_for_the_controller_are_let_go_when_it_is_back(
    reserved: Namespace, start_controller: StartController
) -> None:
    await reserved.create_all(objects.pods("p", 6, PLAIN))
    await steadily(lambda: _all_gated(reserved), lasting=1, saying="nobody removes the gate")
    await start_controller(configuration=ALONE)
    await steps.pods_run(reserved, count=6)


async def _blocking_steps(target: Target) -> dict[str, str]:
    """Return what keeps `kubectl dra uninstall` from deleting anything: the step and its detail."""
    code, text = await plugin_of_kubectl.dra(target.admin, "uninstall", "--dry-run", "--output=json")
    assert code == 1, text
    return {step["check"]: step["detail"] for step in json.loads(text)["checks"] if step["verdict"] == "missing"}


async def _all_gated(namespace: Namespace) -> bool:
    return all(steps.gates(pod) == [objects.GATE] for pod in await namespace.all(PODS))
