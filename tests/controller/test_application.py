import asyncio
import itertools
import logging
from datetime import timedelta

import pytest

from controller.application import Application, policy_from
from dra.api.configuration import ControllerConfiguration, MalformedConfigurationError
from dra.cel.configured_rules import compiled_rules
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.kube.clock import SYSTEM, SystemClock
from dra.model.references import GroupResource
from dra.model.workload_reservations import ENTERED_ALLOCATION, RESERVED_FOR
from tests.controller.cluster import CLAIMS, JOBS, PODS, SLICES, Cluster
from tests.dra.engine.examples import JOBS as KIND
from tests.dra.engine.examples import NAMESPACE

REAL_TIME = True

USES = [{"name": "gpu", "resourceClaimName": "train"}]
ALLOCATION = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "gpu-0"}]}, "allocationTimestamp": "12:00"}
PROTECTED = {"finalizers": ["resource.kubernetes.io/delete-protection"]}


def configuration(**content):
    return ControllerConfiguration.model_validate(
        {"leaderElection": {"enabled": False}, "probes": {"port": 0}, "metrics": {"port": 0}, **content}
    )


@pytest.mark.parametrize(
    ("content", "policy"),
    [
        pytest.param({"mode": "replace"}, REPLACE, id="replace"),
        pytest.param({"mode": "alongside"}, ALONGSIDE, id="alongside"),
    ],
)
def test_a_mode_is_a_policy(content, policy):
    assert policy_from(configuration(**content)) == policy


def test_owners_may_be_the_only_ones_who_release():
    assert not policy_from(configuration(releaseFinished=False)).release_finished


def test_eviction_can_be_switched_off():
    assert not policy_from(configuration(deviceTaintEviction=False)).evict


def test_rules_are_compiled_by_kind():
    rules = compiled_rules(configuration(releaseRules=[{"resource": "deployments.apps", "expression": "false"}]))
    own = rules[GroupResource(resource="deployments", group="apps")]
    assert (own.finished.expression, own.suspended) == ("false", None)
    assert rules[KIND].suspended.holds({"spec": {"suspend": True}})


@pytest.mark.parametrize(
    ("suspended", "expected"),
    [
        pytest.param({}, "object.spec.suspend", id="the-built-in-expression-stays"),
        pytest.param({"suspended": "object.spec.paused"}, "object.spec.paused", id="an-expression-of-the-file"),
        pytest.param({"suspended": ""}, None, id="none-by-an-empty-expression"),
    ],
)
def test_a_rule_of_the_file_may_say_what_suspended_means(suspended, expected):
    rule = {"resource": "jobs.batch", "expression": "object.done", **suspended}
    found = compiled_rules(configuration(releaseRules=[rule]))[KIND].suspended
    assert (found.expression if found is not None else None) == expected


def test_suspended_workloads_keep_their_claims_unless_configured():
    assert not policy_from(configuration()).release_suspended
    assert policy_from(configuration(releaseSuspended=True)).release_suspended


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        pytest.param({"resource": "Job", "expression": "true"}, "releaseRules: Job: ", id="no-resource"),
        pytest.param({"resource": "jobs.batch", "expression": "1"}, "releaseRules: jobs.batch: '1'", id="no-question"),
        pytest.param({"resource": "jobs.batch", "expression": "x."}, "releaseRules: jobs.batch: 'x.'", id="no-cel"),
        pytest.param(
            {"resource": "jobs.batch", "expression": "true", "suspended": "y."},
            "releaseRules: jobs.batch: 'y.'",
            id="suspended-is-no-cel",
        ),
    ],
)
def test_a_bad_rule_is_named(rule, named):
    with pytest.raises(MalformedConfigurationError, match=f"^{named}"):
        compiled_rules(configuration(releaseRules=[rule]))


async def test_what_is_there_is_decided_at_the_start_though_nothing_happens():
    cluster = Cluster()
    cluster.put(PODS, NAMESPACE, "a", spec={"resourceClaims": USES, "schedulingGates": [{"name": SCHEDULING_GATE}]})
    path = cluster.path(PODS, NAMESPACE, "a")
    running = asyncio.create_task(Application(configuration(), cluster).run())
    try:
        async with asyncio.timeout(10.0):
            while cluster.objects[path]["spec"].get("schedulingGates"):  # noqa: ASYNC110 - the state of a server
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class JumpingClock(SystemClock):
    """Each look at the time of day is a day off, before or after."""

    def __init__(self):
        self._off = itertools.cycle([timedelta(days=1), timedelta(days=-1)])

    def wall(self):
        return super().wall() + next(self._off)


@pytest.mark.parametrize("clock", [SYSTEM, JumpingClock()], ids=["time-passes", "time-of-day-jumps"])
async def test_from_the_first_pod_to_the_last(caplog, clock):
    """One claim, one Job, two gated pods: entered, let go, released, given back."""
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    path = cluster.path(CLAIMS, NAMESPACE, "train")
    reserved = {"annotations": {RESERVED_FOR: "jobs.batch/train"}, **PROTECTED}
    cluster.put(JOBS, NAMESPACE, "train", metadata={"uid": "uid-job"}, status={})
    cluster.put(CLAIMS, NAMESPACE, "train", metadata=reserved, status={"allocation": ALLOCATION})
    spec = {"resourceClaims": USES, "schedulingGates": [{"name": SCHEDULING_GATE}]}
    for name in "ab":
        cluster.put(PODS, NAMESPACE, name, spec=spec)

    async def until(condition):
        async with asyncio.timeout(10.0):
            while not condition():  # noqa: ASYNC110 - what it waits for is the state of a server
                await asyncio.sleep(0.01)

    def listed():
        return [entry["name"] for entry in cluster.objects[path].get("status", {}).get("reservedFor", ())]

    application = Application(configuration(), cluster, clock=clock)
    running = asyncio.create_task(application.run())
    try:
        pods = [cluster.path(PODS, NAMESPACE, name) for name in "ab"]
        await until(lambda: not any(cluster.objects[p]["spec"].get("schedulingGates") for p in pods))
        assert listed() == ["train", "a", "b"]
        assert ENTERED_ALLOCATION in cluster.objects[path]["metadata"]["annotations"]

        for name in "ab":
            done = {"resourceClaims": USES, "nodeName": "n1"}
            cluster.put(PODS, NAMESPACE, name, spec=done, status={"phase": "Succeeded"})
        cluster.put(
            JOBS,
            NAMESPACE,
            "train",
            metadata={"uid": "uid-job"},
            status={"conditions": [{"type": "Complete", "status": "True"}]},
        )
        await until(lambda: not cluster.objects[path]["metadata"].get("finalizers"))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert cluster.objects[path]["status"] == {}
    assert cluster.objects[path]["metadata"]["annotations"] == {RESERVED_FOR: "jobs.batch/train"}
    told = [record.reason for record in caplog.records if hasattr(record, "reason")]
    assert [reason for reason in told if reason != "ReleaseWaitsForPods"] == [
        "ReservedForWorkload",
        "WorkloadReleased",
        "Deallocated",
    ]
    assert caplog.messages[-1] == "stopped"


@pytest.mark.parametrize("evicting", [True, False])
async def test_slices_are_read_only_by_who_evicts(evicting):
    cluster = Cluster()
    application = Application(configuration(deviceTaintEviction=evicting), cluster)
    running = asyncio.create_task(application.run())
    await asyncio.sleep(0.2)
    not_ready_reasons = application._informers.not_ready_reasons()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not_ready_reasons == []
    assert any(request.path == SLICES for request in cluster.requests) is evicting


async def test_a_standby_only_watches():
    cluster = Cluster()
    cluster.put(CLAIMS, NAMESPACE, "train", metadata={"annotations": {RESERVED_FOR: "jobs.batch/train"}})
    application = Application(configuration(leaderElection={"enabled": True}), cluster)
    running = asyncio.create_task(application.run())
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert application.cache.claim((NAMESPACE, "train")) is not None
    assert not application.cache.dirty
    assert not cluster.writes(CLAIMS)
    assert not application.cache.workloads.kinds() - {KIND}
