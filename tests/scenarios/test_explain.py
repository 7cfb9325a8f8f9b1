"""Broken situations: `kubectl dra explain` names the cause, and what it prints to be pasted repairs it or is not there.

Every command of every answer is run, and the cluster compared before and after (`tests.advice.comparing`): nothing that
works ends, nothing of others changes. Where a remedy would do either, a decision is told in words, and no command. Most
are what is left when nobody of ours runs: each is prepared by hand, as somebody's mistake or a crash would have
left it. Where the repair is the controller's work, one runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.remedies import changing_commands
from tests.advice import comparing
from tests.scenarios import installation, objects, plugin_of_kubectl, steps
from tests.scenarios.api import ApiError
from tests.scenarios.claims import allocated, finished, started
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, DEPLOYMENTS, DEVICE_CLASSES, JOBS, LEASES, NODES, PODS, RESOURCE_SLICES
from tests.scenarios.target import Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

Json = dict[str, Any]
Prepare = Callable[[Namespace], Awaitable[str]]
Repaired = Callable[[Namespace], Awaitable[object]]

ADVICE: Final = "advice"
"""Of a pod: no problem of an object, but what the nodes lack."""

WITHIN: Final = 90.0

OFF_THE_ALLOCATION: Final = PodShape(claim="c", hold=True, spec={"nodeName": "node-001"})

SEEN: Final = "scenario.dra/seen"
"""Annotation of a pod that was there before anybody pasted a command."""


# What is broken; each returns what to explain.


async def _claim(namespace: Namespace, name: str = "c", *, node: str | None = None, **form: Any) -> str:
    """A claim and its only device; returns the class."""
    devices = await namespace.offer_devices(node=node)
    await namespace.create(objects.claim(name, device_class=devices, **form))
    return devices


async def _allocated(namespace: Namespace, name: str = "c", *, node: str | None = None, **form: Any) -> None:
    """A claim that somebody has allocated and left alone."""
    devices = await _claim(namespace, name, node=node, **form)
    pool = f"{namespace.name}-{node or 'shared'}"
    await steps.allocate(namespace, name, devices=devices, pool=pool, node=node)


async def its_pod_is_gone(namespace: Namespace) -> str:
    await _allocated(namespace)
    await steps.list_too(namespace, "c", {"resource": "pods", "name": "ghost", "uid": "uid-of-a-ghost"})
    return "claim/c"


async def an_allocation_left_behind(namespace: Namespace) -> str:
    await _allocated(namespace)
    return "claim/c"


async def its_job_has_finished(namespace: Namespace) -> str:
    await _allocated(namespace, reserved_for="jobs.batch/train")
    job = await namespace.create(objects.job("train", PodShape(run_seconds=0)))
    await steps.list_too(namespace, "c", steps.entry(job, "jobs", group="batch"))
    await eventually(lambda: namespace.get(JOBS, "train"), until=_complete, within=WITHIN, saying="the Job is complete")
    return "claim/c"


async def its_deployment_is_gone(namespace: Namespace) -> str:
    await _allocated(namespace, reserved_for="deployments.apps/crew", uid="uid-of-nobody")
    entry = {"apiGroup": "apps", "resource": "deployments", "name": "crew", "uid": "uid-of-nobody"}
    await steps.list_too(namespace, "c", entry)
    return "claim/c"


async def kept_by_others(namespace: Namespace) -> str:
    await _allocated(namespace)
    await steps.list_too(namespace, "c", steps.foreign_entry("dam"))
    return "claim/c"


async def kept_for_a_lost_node(namespace: Namespace) -> str:
    node = await steps.add_node(namespace, "own")
    await _claim(namespace, node=node)
    await _runs(namespace)
    await steps.lose_node(namespace, node)
    await namespace.delete(PODS, "a", grace_seconds=0)
    await steps.claim_is(namespace, "c", lambda found: "lostnodes" in str(found["status"]), saying="its node is listed")
    return "claim/c"


async def a_stray_pod_outlives_the_job(namespace: Namespace) -> str:
    await _claim(namespace, reserved_for="jobs.batch/train")
    await namespace.create(objects.job("train", PodShape(claim="c", run_seconds=0)))
    await _runs(namespace)
    await steps.told(namespace, "c", "ReleaseWaitsForPods")
    return "claim/c"


async def orphans_and_the_next_job_of_the_name(namespace: Namespace) -> str:
    await _claim(namespace, reserved_for="jobs.batch/train")
    await namespace.create(objects.job("train", PodShape(claim="c")))
    await steps.pods_run(namespace)
    await steps.claim_is(namespace, "c", lambda found: "jobs" in str(found["status"]), saying="the Job is entered")
    (orphan,) = await namespace.all(PODS)
    job = JOBS.path(namespace=namespace.name, name="train")
    await namespace.api.request("DELETE", job, {"propagationPolicy": "Orphan"})
    await eventually(lambda: namespace.find(JOBS, "train"), until=lambda found: found is None, saying="the Job is gone")
    await namespace.create(objects.job("train", PodShape(claim="c")))
    await steps.pods_run(namespace, count=2)
    await steps.told(namespace, "c", "ReleaseWaitsForPods")
    assert orphan["metadata"]["uid"] in {each["metadata"]["uid"] for each in await namespace.all(PODS)}
    return "claim/c"


async def a_drained_node(namespace: Namespace) -> str:
    """Its pods were evicted, and their claim has a device of the node that takes no pods any more."""
    node = await steps.add_node(namespace, "own")
    await _claim(namespace, node=node)
    await _runs(namespace, name="first")
    await steps.cordon(namespace, node)
    await namespace.delete(PODS, "first", grace_seconds=1)
    await steps.list_too(namespace, "c", steps.foreign_entry("dam"))  # else the scheduler takes it back
    await _waits(namespace)
    return "claim/c"


async def deleted_under_a_pod(namespace: Namespace) -> str:
    await _claim(namespace)
    await _runs(namespace)
    await namespace.delete(CLAIMS, "c")
    return "claim/c"


async def only_a_finalizer_is_left(namespace: Namespace) -> str:
    await _claim(namespace)
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    await namespace.patch(CLAIMS, "c", finalizers)
    await namespace.delete(CLAIMS, "c")
    return "claim/c"


async def made_for_a_pod_that_has_ended(namespace: Namespace) -> str:
    devices = await namespace.offer_devices()
    await namespace.create(objects.pod("a", PodShape(run_seconds=0)))
    pod = await steps.pod_is(namespace, "a", finished, saying="it has ended")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": pod["metadata"]["uid"], "controller": True}
    made = objects.claim("c", device_class=devices)
    made["metadata"]["ownerReferences"] = [owner]
    await namespace.create(made)
    return "claim/c"


async def notes_about_nothing(namespace: Namespace) -> str:
    await _claim(namespace)
    notes = {"reserve.dra/entered-allocation": "0123456789abcdef", "reserve.dra/reserved-for-any-pod": "true"}
    await namespace.patch(CLAIMS, "c", {"metadata": {"annotations": notes}})
    return "claim/c"


def wrongly_reserved(reference: str) -> Prepare:
    async def prepare(namespace: Namespace) -> str:
        try:
            await _claim(namespace, reserved_for=reference)
        except ApiError as error:
            if "references.reserve.dra" not in str(error):
                raise
            pytest.skip("deploy/policies/guards.yaml is installed: no such claim can be made")
        await namespace.create(objects.job("train", PodShape(claim="c", gated=True)))
        await eventually(lambda: namespace.all(PODS), until=bool, saying="the Job has a pod")
        return "claim/c"

    return prepare


async def reserved_for_the_one_before(namespace: Namespace) -> str:
    await _claim(namespace, reserved_for="jobs.batch/train", uid="uid-of-the-one-before")
    await namespace.create(objects.job("train", PodShape(claim="c", gated=True)))
    await eventually(lambda: namespace.all(PODS), until=bool, saying="the Job has a pod")
    return "claim/c"


async def force_with_a_wrong_uid(namespace: Namespace) -> str:
    await kept_by_others(namespace)
    await steps.force_release(namespace, "c", value="true")
    return "claim/c"


async def force_against_a_pod(namespace: Namespace) -> str:
    await _claim(namespace)
    await _runs(namespace)
    await steps.force_release(namespace, "c")
    return "claim/c"


async def a_pod_off_the_allocation(namespace: Namespace) -> str:
    await _claim(namespace, node="node-000")
    await _runs(namespace, name="first")
    await namespace.create(objects.pod("a", PodShape(claim="c", hold=True, spec={"nodeName": "node-001"})))
    return "pod/a"


async def a_pod_without_its_allocation(namespace: Namespace) -> str:
    await _claim(namespace)
    await _runs(namespace)
    await namespace.patch_status(CLAIMS, "c", {"allocation": None, "reservedFor": None})
    return "pod/a"


async def bound_before_its_claim_was_allocated(namespace: Namespace) -> str:
    await _claim(namespace)
    await namespace.create(objects.pod("a", PodShape(claim="c", hold=True, spec={"nodeName": "node-000"})))
    return "pod/a"


async def a_device_given_twice(namespace: Namespace) -> str:
    await _allocated(namespace, "b")
    devices = f"{namespace.name}.scenario.dra"
    await namespace.create(objects.claim("c", device_class=devices))
    await steps.allocate(namespace, "c", devices=devices, pool=f"{namespace.name}-shared")
    return "claim/c"


async def a_gate_that_nobody_opens(namespace: Namespace) -> str:
    await _claim(namespace)
    await namespace.create(objects.pod("a", PodShape(claim="c", gated=True)))
    return "pod/a"


async def a_cordoned_node(namespace: Namespace) -> str:
    node = await steps.add_node(namespace, "own")
    await steps.cordon(namespace, node)
    await _claim(namespace, node=node)
    await _waits(namespace)
    return "pod/a"


async def a_tainted_node(namespace: Namespace) -> str:
    node = await steps.add_node(namespace, "own")
    found = await namespace.api.get(NODES, node)
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    await namespace.api.patch(NODES, node, {"spec": {"taints": [*found["spec"]["taints"], taint]}})
    await _claim(namespace, node=node)
    await _waits(namespace)
    return "pod/a"


async def a_label_that_no_node_has(namespace: Namespace) -> str:
    node = await steps.add_node(namespace, "own")
    await _claim(namespace, node=node)
    await _waits(namespace, spec={"nodeSelector": {"scenario.dra/zone": "a"}})
    return "pod/a"


async def a_device_in_dead_hands(namespace: Namespace) -> str:
    await _allocated(namespace, "old")
    await steps.list_too(namespace, "old", {"resource": "pods", "name": "ghost", "uid": "uid-of-a-ghost"})
    devices = f"{namespace.name}.scenario.dra"
    await namespace.create(objects.claim("c", device_class=devices))
    await _waits(namespace)
    return "pod/a"


async def a_device_kept_by_others(namespace: Namespace) -> str:
    await _allocated(namespace, "old")
    await steps.list_too(namespace, "old", steps.foreign_entry("dam"))
    await namespace.create(objects.claim("c", device_class=f"{namespace.name}.scenario.dra"))
    await _waits(namespace)
    return "pod/a"


async def allocated_on_a_cordoned_node(namespace: Namespace) -> str:
    node = await steps.add_node(namespace, "own")
    await _allocated(namespace, node=node)
    await steps.list_too(namespace, "c", steps.foreign_entry("dam"))  # else the scheduler takes it back
    await steps.cordon(namespace, node)
    await _waits(namespace)
    return "claim/c"


async def bound_to_a_silent_node(namespace: Namespace) -> str:
    node = await steps.add_node(namespace, "own")
    await _claim(namespace, node=node)
    await namespace.create(objects.pod("a", PodShape(claim="c", hold=True)))
    await steps.pod_is(namespace, "a", lambda pod: "nodeName" in pod["spec"], saying="it is bound")
    await steps.lose_node(namespace, node)
    return "pod/a"


async def a_jobs_pod_off_the_allocation(namespace: Namespace) -> str:
    return await _off_the_allocation(namespace, objects.job("train", OFF_THE_ALLOCATION))


async def a_deployments_pod_off_the_allocation(namespace: Namespace) -> str:
    return await _off_the_allocation(namespace, objects.deployment("train", OFF_THE_ALLOCATION))


async def _off_the_allocation(namespace: Namespace, workload: Json) -> str:
    await _claim(namespace, node="node-000")
    await _runs(namespace, name="first")
    await namespace.create(workload)
    (name,) = await eventually(lambda: _of_train(namespace), until=bool, saying="the workload has a pod")
    await namespace.patch(PODS, name, {"metadata": {"annotations": {SEEN: "true"}}})
    return f"pod/{name}"


async def bound_and_not_listed(namespace: Namespace) -> str:
    await _allocated(namespace, node="node-000")
    await namespace.create(objects.pod("a", PodShape(claim="c", hold=True, spec={"nodeName": "node-000"})))
    return "pod/a"


async def _runs(namespace: Namespace, name: str = "a") -> None:
    await namespace.create(objects.pod(name, PodShape(claim="c")))
    await steps.pods_run(namespace, name)


async def _waits(namespace: Namespace, **form: Any) -> None:
    await namespace.create(objects.pod("a", PodShape(claim="c", **form)))
    await steps.pod_is(namespace, "a", steps.unschedulable, within=WITHIN, saying="no node takes it")


# When it is repaired.


async def freed(namespace: Namespace) -> object:
    return await steps.freed(namespace, "c", within=WITHIN)


async def gone(namespace: Namespace) -> object:
    return await eventually(
        lambda: namespace.find(CLAIMS, "c"),
        until=lambda found: found is None,
        within=WITHIN,
        saying="the claim is gone",
    )


async def pod_gone(namespace: Namespace) -> object:
    return await eventually(
        lambda: namespace.find(PODS, "a"), until=lambda found: found is None, within=WITHIN, saying="the pod is gone"
    )


async def running(namespace: Namespace) -> object:
    return await steps.pod_is(namespace, "a", started, within=WITHIN, saying="it runs")


async def no_notes(namespace: Namespace) -> object:
    return await steps.claim_is(
        namespace, "c", lambda found: not found["metadata"].get("annotations"), saying="no notes"
    )


async def reserved_for_the_job(namespace: Namespace) -> object:
    job = await namespace.get(JOBS, "train")
    claim = await namespace.get(CLAIMS, "c")
    annotations = claim["metadata"]["annotations"]
    assert annotations["reserve.dra/reserved-for"] == "jobs.batch/train"
    assert annotations.get("reserve.dra/reserved-for-uid") in (None, job["metadata"]["uid"])
    return claim


def _complete(job: Json) -> bool:
    return any(each["type"] == "Complete" for each in job["status"].get("conditions", ()))


async def _of_train(namespace: Namespace) -> list[str]:
    """Return the names of the pods of workload `train` that were not seen before."""
    found = [each["metadata"] for each in await namespace.all(PODS) if each["metadata"]["name"].startswith("train-")]
    return [each["name"] for each in found if SEEN not in each.get("annotations", {})]


async def another_pod(namespace: Namespace) -> object:
    """The controller of the pod has made another one."""
    return await eventually(lambda: _of_train(namespace), until=bool, within=WITHIN, saying="there is another pod")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One line of the table: a remedy repairs, or words say what there is to weigh."""

    prepare: Prepare
    named: ProblemCode | str
    repaired: Repaired | None = None
    weighs: str = ""
    controller: bool = False


def situation(prepare: Prepare, named: ProblemCode | str, outcome: Repaired | str, *marks: str, name: str = "") -> Any:
    """Return a line; the quick ones are tried in every test run, with a controller where that is to repair it."""
    repaired, weighs = (None, outcome) if isinstance(outcome, str) else (outcome, "")
    controller = "controller" in marks
    found = Situation(prepare=prepare, named=named, repaired=repaired, weighs=weighs, controller=controller)
    slow = [] if "quick" in marks else [pytest.mark.long]
    return pytest.param(found, marks=slow, id=name or prepare.__name__.replace("_", "-"))


@pytest.mark.parametrize(
    "case",
    [
        situation(its_pod_is_gone, ProblemCode.NOT_FREED, freed),  # waits for 100 s and more: its end was not seen
        situation(an_allocation_left_behind, ProblemCode.LEFT_OVER, freed, "quick"),
        situation(its_job_has_finished, ProblemCode.NOT_FREED, freed, "quick"),
        situation(its_deployment_is_gone, ProblemCode.NOT_FREED, freed),
        situation(kept_by_others, ProblemCode.KEPT_BY_OTHERS, "two pods share a device", "quick"),
        situation(kept_for_a_lost_node, ProblemCode.NODE_LOST, "out-of-service", "controller"),
        situation(a_stray_pod_outlives_the_job, ProblemCode.RELEASE_WAITS, "a of no controller", "controller"),
        situation(
            orphans_and_the_next_job_of_the_name,
            ProblemCode.RELEASE_WAITS,
            "of another job train",
            "controller",
            "quick",
        ),
        situation(deleted_under_a_pod, ProblemCode.DELETION_WAITS, "a of no controller", "controller"),
        situation(only_a_finalizer_is_left, ProblemCode.FINALIZER_LEFT, gone, "quick"),
        situation(made_for_a_pod_that_has_ended, ProblemCode.ZOMBIE_CLAIM, gone),
        situation(notes_about_nothing, ProblemCode.MARKS_LEFT, no_notes),
        situation(wrongly_reserved("the Job train"), ProblemCode.MALFORMED, "jobs.batch/train", name="no-reference"),
        situation(
            wrongly_reserved("jobs.batch/x"), ProblemCode.WORKLOAD_NOT_FOUND, "create jobs.batch/x", name="no-such-job"
        ),
        situation(
            wrongly_reserved("jobs.btach/train"), ProblemCode.KIND_UNKNOWN, "correct annotation", name="no-such-kind"
        ),
        situation(wrongly_reserved("jobs/train"), ProblemCode.KIND_UNKNOWN, reserved_for_the_job, name="no-group"),
        situation(
            wrongly_reserved("jobs.v1.batch/train"),
            ProblemCode.KIND_UNKNOWN,
            reserved_for_the_job,
            name="with-a-version",
        ),
        situation(reserved_for_the_one_before, ProblemCode.WRONG_UID, "set annotation reserve.dra/reserved-for-uid"),
        situation(force_with_a_wrong_uid, ProblemCode.FORCE_IGNORED, "remove the annotation", "controller"),
        situation(force_against_a_pod, ProblemCode.FORCE_BLOCKED, "a of no controller", "controller"),
        situation(a_pod_off_the_allocation, ProblemCode.OFF_ALLOCATION, "create it again"),
        situation(a_deployments_pod_off_the_allocation, ProblemCode.OFF_ALLOCATION, another_pod),
        situation(a_jobs_pod_off_the_allocation, ProblemCode.OFF_ALLOCATION, "above its backoffLimit"),
        situation(a_pod_without_its_allocation, ProblemCode.ALLOCATION_LOST, "no controller"),
        situation(bound_before_its_claim_was_allocated, ProblemCode.BOUND_WITHOUT_ALLOCATION, "create it again"),
        situation(a_device_given_twice, ProblemCode.HELD_TWICE, "decide which claim keeps the device", "controller"),
        situation(a_gate_that_nobody_opens, ProblemCode.GATED, running, "quick"),
        situation(a_drained_node, ProblemCode.NODE_CORDONED, "The administrator who cordoned", "quick"),
        situation(a_cordoned_node, ADVICE, "the administrator who cordoned it", "quick"),
        situation(a_tainted_node, ADVICE, "add a toleration to its template"),
        situation(a_label_that_no_node_has, ADVICE, "correct the node selector"),
        situation(a_device_in_dead_hands, ProblemCode.NOT_FREED, running),
        situation(a_device_kept_by_others, ProblemCode.KEPT_BY_OTHERS, "two pods share a device"),
        situation(allocated_on_a_cordoned_node, ProblemCode.NODE_CORDONED, "The administrator who cordoned"),
        situation(bound_to_a_silent_node, ProblemCode.NODE_NOT_READY, "repair node"),
        situation(bound_and_not_listed, ProblemCode.UNLISTED, "start the dra-reserve controller"),
    ],
)
async def test_the_cause_is_named_and_what_is_pasted_repairs_it_and_harms_nothing(
    target: Target, namespace: Namespace, start_controller: StartController, case: Situation
) -> None:
    if case.controller:
        await start_controller(configuration=ALONE)
    what = await case.prepare(namespace)
    told = await plugin_of_kubectl.explained(target.admin, what, namespace.name)
    problems = {problem["trouble"]: problem for problem in told["problems"]}
    found = told if case.named == ADVICE else problems[case.named]
    serious = {each["trouble"] for each in told["problems"] if each["grade"] in {"error", "leak"}}
    assert serious <= {case.named}, "nothing else is called broken"
    before = await _state(namespace)
    commands = {each["command"]: each["object"] for each in told["problems"] if "command" in each}
    if told["next"]:
        commands.setdefault(told["next"], told["kind"])
    for command, about in commands.items():
        if not changing_commands(command):
            continue  # it looks, or waits for what somebody else is to do
        await plugin_of_kubectl.run(target.admin, command)
        after = await _state(namespace)
        plural = "pods" if about.startswith(("pod ", "Pod")) else "resourceclaims"
        name = (plural, namespace.name, about.rpartition("/")[2])
        harms = comparing.harms(before, after, about=name, asked=namespace.name, consequences=True)
        assert [*harms] == []
    if case.repaired is not None:
        assert found["next" if case.named == ADVICE else "command"], f"{case.named}: no command among {told}"
        await case.repaired(namespace)
    else:
        assert "command" not in found
        assert case.weighs in found["decision"], f"{case.named}: {found['decision']}"


async def _state(namespace: Namespace) -> dict[comparing.Name, Json]:
    """Return what the test has made, and the nodes and devices of the cluster."""
    found: dict[comparing.Name, Json] = {}
    for resource in (PODS, CLAIMS, JOBS, DEPLOYMENTS):
        for each in await namespace.all(resource):
            found[resource.plural, namespace.name, each["metadata"]["name"]] = each
    for resource in (NODES, RESOURCE_SLICES, DEVICE_CLASSES):
        for each in await namespace.api.all(resource):
            found[resource.plural, "", each["metadata"]["name"]] = each
    return found


async def test_what_is_right_is_not_called_wrong(
    target: Target, namespace: Namespace, start_controller: StartController
) -> None:
    # Its Lease shows that it leads: the Deployment of the installation is scaled to zero, for the controllers of tests.
    await namespace.api.delete(LEASES, installation.LEASE, namespace=installation.NAMESPACE)
    await start_controller()
    await _claim(namespace, reserved_for="jobs.batch/train")
    await namespace.create(objects.job("train", PodShape(claim="c"), parallelism=3))
    await steps.pods_run(namespace, count=3)
    await steps.claim_is(namespace, "c", lambda found: "jobs" in str(found["status"]), saying="it is reserved")
    told = await plugin_of_kubectl.explained(target.admin, "claim/c", namespace.name)
    stamped = Feature.ALLOCATION_TIMESTAMP.among(kubernetes_version())
    assert [each["trouble"] for each in told["problems"]] == ([] if stamped else [ProblemCode.TIMELESS])
    assert "workload" in told["holds"]
    assert told["until"].startswith("jobs.batch/train completes or fails, or is deleted")
    code, report = await plugin_of_kubectl.dra(target.admin, "audit", f"--namespace={namespace.name}")
    assert code == 0, report
    assert allocated(await namespace.get(CLAIMS, "c"))


@pytest.mark.parametrize("controllers", [0, 1])
async def test_release_never_takes_a_device_from_a_pod_that_runs(
    target: Target, namespace: Namespace, start_controller: StartController, controllers: int
) -> None:
    for _ in range(controllers):
        await start_controller()
    await _claim(namespace)
    await _runs(namespace)
    before = await namespace.get(CLAIMS, "c")
    code, _ = await plugin_of_kubectl.dra(target.admin, "release", "claim", "c", f"--namespace={namespace.name}")
    assert code == 1
    after = await namespace.get(CLAIMS, "c")
    assert after["status"]["allocation"] == before["status"]["allocation"]
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")


async def test_release_asks_the_controller_where_its_lease_shows_that_it_runs(
    target: Target, namespace: Namespace, start_controller: StartController
) -> None:
    await start_controller()
    await kept_by_others(namespace)
    _, text = await plugin_of_kubectl.dra(target.admin, "release", "claim/c", f"--namespace={namespace.name}")
    assert "released by the controller" in text
    await freed(namespace)


async def test_wait_says_what_keeps_the_claim_when_time_is_up(target: Target, namespace: Namespace) -> None:
    await kept_by_others(namespace)
    waiting = ("wait", "claim", "c", f"--namespace={namespace.name}")
    code, _ = await plugin_of_kubectl.dra(target.admin, *waiting, "--timeout=1s")
    assert code == 1
    await plugin_of_kubectl.dra(target.admin, "release", "claim", "c", f"--namespace={namespace.name}")
    code, text = await plugin_of_kubectl.dra(target.admin, *waiting, "--timeout=10s")
    assert (code, text) == (0, "resourceclaim.resource.k8s.io/c released\n")
