import asyncio

import pytest

from localplane.controller_manager.manager import ControllerManager
from localplane.nodes.kubelets import Kubelets
from localplane.nodes.node_objects import EmulatedNode
from tests.localplane.components import Plane, running

VIRTUAL_TIME = True


def job(name, *, command=("sleep", "5"), policy="Never", node="n1", annotations=None, **spec):
    template = {
        "metadata": {"labels": {"app": name}, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "nodeName": node,
            "restartPolicy": policy,
            "containers": [{"name": "main", "image": "busybox", "command": list(command)}],
        },
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def working(plane, *others):
    nodes = [EmulatedNode(name="n1")]
    kubelets = Kubelets(plane.client(), nodes=nodes, clock=plane.clock, random=plane.random, leases=False)
    workloads = ControllerManager(plane.client(), clock=plane.clock, random=plane.random)
    return running(kubelets, workloads, *others)


async def status(plane, name):
    found = (await plane.user.get("jobs", name)).get("status", {})
    kinds = [c["type"] for c in found.get("conditions", ()) if c["status"] == "True"]
    return found, kinds


def phases(pods):
    return sorted(pod.get("status", {}).get("phase", "") for pod in pods)


async def test_a_job_of_many_pods_runs_and_completes():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", parallelism=200, completions=200))
        await asyncio.sleep(3)
        busy, _ = await status(plane, "train")
        assert (busy["active"], busy["ready"]) == (200, 200)
        await asyncio.sleep(6)
        done, kinds = await status(plane, "train")
        pods = await plane.user.list("pods")
    assert done["succeeded"] == 200
    assert done["uncountedTerminatedPods"] == {}
    assert {"completionTime", "startTime"} <= done.keys()
    assert "active" not in done
    assert kinds == ["SuccessCriteriaMet", "Complete"]
    assert phases(pods) == ["Succeeded"] * 200
    assert not any(pod["metadata"].get("finalizers") for pod in pods)


async def test_no_more_pods_work_than_parallelism_allows():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", parallelism=2, completions=5))
        await asyncio.sleep(1)
        assert len(await plane.user.list("pods")) == 2
        await asyncio.sleep(30)
        _, kinds = await status(plane, "train")
        assert len(await plane.user.list("pods")) == 5
    assert "Complete" in kinds


async def test_pods_of_an_indexed_job_have_indexes():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", parallelism=3, completions=3, completionMode="Indexed"))
        await asyncio.sleep(10)
        done, kinds = await status(plane, "train")
        pods = await plane.user.list("pods")
    assert done["completedIndexes"] == "0-2"
    assert "Complete" in kinds
    assert sorted(pod["spec"]["hostname"] for pod in pods) == ["train-0", "train-1", "train-2"]
    assert all(pod["metadata"]["name"].startswith(pod["spec"]["hostname"] + "-") for pod in pods)
    index = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod["metadata"]["labels"][index] for pod in pods) == ["0", "1", "2"]


async def test_a_job_fails_after_as_many_failures_as_it_may_have_and_waits_longer_each_time():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", command=("sh", "-c", "exit 3"), backoffLimit=2))
        await asyncio.sleep(5)
        assert len(await plane.user.list("pods")) == 1
        await asyncio.sleep(10)
        assert len(await plane.user.list("pods")) == 2
        await asyncio.sleep(40)
        done, kinds = await status(plane, "train")
    assert done["failed"] == 3
    assert kinds == ["FailureTarget", "Failed"]
    assert done["conditions"][-1]["reason"] == "BackoffLimitExceeded"


async def test_a_suspended_job_has_no_pods_until_it_is_resumed():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", parallelism=2, completions=2, suspend=True))
        await asyncio.sleep(2)
        _, kinds = await status(plane, "train")
        assert kinds == ["Suspended"]
        assert not await plane.user.list("pods")
        await plane.user.patch("jobs", "train", {"spec": {"suspend": False}})
        await asyncio.sleep(2)
        assert len(await plane.user.list("pods")) == 2
        await plane.user.patch("jobs", "train", {"spec": {"suspend": True}})
        await asyncio.sleep(2)
        found, kinds = await status(plane, "train")
        assert kinds == ["Suspended"]
        assert "startTime" not in found
        await asyncio.sleep(40)
        assert not await plane.user.list("pods")


async def test_a_job_that_takes_too_long_fails_and_its_pods_end():
    plane = Plane()
    async with working(plane):
        spec = {"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 10}
        await plane.user.create("jobs", job("train", command=("sleep", "infinity"), **spec))
        await asyncio.sleep(60)
        done, kinds = await status(plane, "train")
        assert not [pod for pod in await plane.user.list("pods") if pod["status"]["phase"] == "Running"]
    assert (kinds, done["conditions"][-1]["reason"]) == (["FailureTarget", "Failed"], "DeadlineExceeded")
    assert done["failed"] == 2


async def test_a_finished_job_goes_when_its_time_is_up():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", ttlSecondsAfterFinished=20))
        await asyncio.sleep(10)
        assert await plane.user.names("jobs") == ["train"]
        await asyncio.sleep(30)
        [left] = await plane.user.list("jobs") or [None]
    assert left is None or "deletionTimestamp" in left["metadata"]


async def test_a_rule_for_exit_codes_fails_the_job_at_once():
    plane = Plane()
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    async with working(plane):
        spec = {"podFailurePolicy": {"rules": rules}, "podReplacementPolicy": "Failed"}
        await plane.user.create("jobs", job("train", command=("sh", "-c", "sleep 1; exit 42"), **spec))
        await asyncio.sleep(5)
        done, kinds = await status(plane, "train")
    assert (kinds, done["conditions"][-1]["reason"]) == (["FailureTarget", "Failed"], "PodFailurePolicy")
    assert "failed with exit code 42 matching FailJob rule at index 0" in done["conditions"][-1]["message"]


async def test_scaling_a_job_down_takes_pods_away():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", command=("sleep", "infinity"), parallelism=5, completions=9))
        await asyncio.sleep(2)
        await plane.user.patch("jobs", "train", {"spec": {"parallelism": 2}})
        await asyncio.sleep(40)
        found, _ = await status(plane, "train")
        assert len(await plane.user.list("pods")) == 2
    assert (found["active"], found.get("failed")) == (2, None)


async def test_a_controller_that_starts_in_the_middle_goes_on():
    plane = Plane()
    kubelets = Kubelets(plane.client(), nodes=[EmulatedNode(name="n1")], clock=plane.clock, random=plane.random)
    async with running(kubelets):
        async with running(ControllerManager(plane.client(), clock=plane.clock, random=plane.random)):
            await plane.user.create("jobs", job("train", parallelism=20, completions=40))
            await asyncio.sleep(4.9)
        await asyncio.sleep(2)
        async with running(ControllerManager(plane.client(), clock=plane.clock, random=plane.random)):
            await asyncio.sleep(10)
            done, kinds = await status(plane, "train")
            assert len(await plane.user.list("pods")) == 40
    assert done["succeeded"] == 40
    assert "Complete" in kinds


async def test_pods_of_a_job_whose_name_another_one_has_taken_are_let_go():
    """Nobody else would take the finalizer off: simulation seed 46."""
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", command=("sleep", "50"), parallelism=2, completions=2))
        await asyncio.sleep(2)
        await plane.user.delete("jobs", "train")
        await plane.user.create("jobs", job("train", parallelism=0))
        await asyncio.sleep(2)
        pods = await plane.user.list("pods")
    assert not any(pod["metadata"].get("finalizers") for pod in pods)


@pytest.mark.parametrize(
    ("completions", "successes"), [pytest.param(None, 3, id="work-queue"), pytest.param(3, 3, id="fixed")]
)
async def test_when_a_job_is_complete(completions, successes):
    plane = Plane()
    async with working(plane):
        spec = {"parallelism": 3} | ({} if completions is None else {"completions": completions})
        await plane.user.create("jobs", job("train", **spec))
        await asyncio.sleep(10)
        done, kinds = await status(plane, "train")
    assert done["succeeded"] == successes
    assert "Complete" in kinds


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_deleted_job_takes_its_pods_with_it(propagation):
    plane = Plane()
    async with working(plane):
        spec = {"parallelism": 5, "completions": 9}
        await plane.user.create("jobs", job("train", command=("sleep", "infinity"), **spec))
        await asyncio.sleep(2)
        await plane.user.delete("jobs", "train", propagationPolicy=propagation)
        await asyncio.sleep(40)
        assert not await plane.user.names("pods")
        assert not await plane.user.names("jobs")


async def test_orphans_of_a_job_run_on_without_its_finalizer():
    plane = Plane()
    async with working(plane):
        await plane.user.create("jobs", job("train", command=("sleep", "infinity"), parallelism=2, completions=2))
        await asyncio.sleep(2)
        await plane.user.delete("jobs", "train", propagationPolicy="Orphan")
        await asyncio.sleep(10)
        pods = await plane.user.list("pods")
        assert not await plane.user.names("jobs")
    assert phases(pods) == ["Running", "Running"]
    assert not any(pod["metadata"].get("finalizers") or pod["metadata"].get("ownerReferences") for pod in pods)
