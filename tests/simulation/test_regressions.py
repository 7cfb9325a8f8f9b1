"""Histories that once broke an invariant, played again with the operations alone: no seed has to find them."""

import pytest

from localplane.fault_injection import Fault, FaultRule
from tests.simulation.autoscaler import NODE_ADDED, NODE_WITH_CLAIM_DELETED, NodeGroup
from tests.simulation.initial_state import InitialState
from tests.simulation.kueue import JOB_RESUMED, PODS_ADMITTED
from tests.simulation.operations import (
    Backup,
    CreateClaim,
    CreateJob,
    CreatePods,
    DisturbNode,
    EndClaim,
    EndPod,
    Evict,
    InjectFault,
    KillProcess,
)
from tests.simulation.runner import run_scenario
from tests.simulation.scenario import Scenario

ONE_GPU = InitialState(devices=(("gpu-0", ("n1", "n2", "n3")),))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lag", [3.0, 0.1])
@pytest.mark.parametrize("template", [False, True], ids=["shared-claim", "claim-template"])
def test_a_claim_is_kept_for_a_listed_pod_that_the_pods_watch_still_shows_gated(seed, lag, template):
    """Kueue's gate goes, kube-scheduler lists and binds the pod, and the claims watch tells first."""
    late = FaultRule(
        fault=Fault.DELAY, component="controller*", verb="watch", resource="pods", seconds=lag, lasting=30.0
    )
    operations = (
        CreateClaim(at=1.0, namespace="ml", name="a"),
        CreatePods(
            at=2.0,
            namespace="ml",
            names=("p",),
            claims=() if template else ("a",),
            foreign_gate=True,
            template=template,
        ),
        InjectFault(at=6.0, rule=late),
        EndPod(at=10.0, namespace="ml", name="p", how="ungated"),
        CreateClaim(at=10.2, namespace="ml", name="b"),
        CreatePods(at=10.3, namespace="ml", names=("q",), claims=("b",)),
    )
    result = run_scenario(Scenario(seed=seed, initial_state=ONE_GPU, operations=operations, until=40.0))
    assert not result.violation


def test_an_entry_that_arrives_after_its_owner_has_released_the_claim_is_refused():
    """The first attempt to enter the workload is 19 s on its way; meanwhile the second one succeeded."""
    late = FaultRule(
        fault=Fault.DELAY,
        component="controller*",
        verb="patch",
        resource="resourceclaims.resource.k8s.io*",
        times=2,
        seconds=25.0,
    )
    operations = (
        CreateClaim(at=1.15, namespace="ml", name="c0", job="eval", pre_list=True),
        InjectFault(at=5.16, rule=late),
        CreateJob(at=16.03, namespace="ml", name="eval"),
        CreatePods(at=18.92, namespace="ml", names=("p0",), claims=("c0",), opted_in=True, seconds=32.25),
        EndClaim(at=41.42, namespace="ml", name="c0", how="released"),
    )
    initial_state = InitialState(
        kep=True, devices=(("gpu-0", ("n1", "n2", "n3")),), namespaces=("ml", "web"), replicas=2, release_finished=False
    )
    result = run_scenario(Scenario(seed=1004828, initial_state=initial_state, operations=operations, until=60.0))
    assert not result.violation


def test_a_pod_that_is_bound_while_a_release_is_under_way_keeps_its_devices():
    """With the KEP's fields, binding writes nothing on the claim: no resourceVersion stops a late deallocation."""
    late = FaultRule(
        fault=Fault.DELAY,
        component="controller*",
        verb="patch",
        resource="resourceclaims.resource.k8s.io*",
        times=2,
        seconds=8.0,
    )
    operations = (
        CreateJob(at=0.0, namespace="ml", name="train", pods=4, claims=("c0",), seconds=52.65),
        CreateClaim(at=27.6, namespace="ml", name="c0", job="train", known=True, pre_list=True),
        InjectFault(at=70.83, rule=late),
        CreatePods(at=80.63, namespace="ml", names=("p3",), claims=("c0",)),
    )
    initial_state = InitialState(kep=True, devices=(("gpu-0", ("n1", "n2")),))
    result = run_scenario(Scenario(seed=701112, initial_state=initial_state, operations=operations, until=120.0))
    assert not result.violation


def test_a_pod_behind_a_gate_relies_on_no_allocation():
    """A claim is deleted and replaced, and a node loses its label while the pod of the new claim is bound to it."""
    slow = FaultRule(
        fault=Fault.DELAY,
        component="scheduler",
        verb="patch",
        resource="resourceclaims.resource.k8s.io*",
        times=2,
        seconds=20.0,
    )
    operations = (
        CreateClaim(at=1.1, namespace="ml", name="c0"),
        KillProcess(at=1.77, component="controller", seconds=15.08),
        CreatePods(at=2.21, namespace="ml", names=("p0",), claims=("c0",), gated=True),
        CreatePods(at=4.83, namespace="ml", names=("p3",), claims=("c0",), opted_in=True, seconds=19.03),
        EndClaim(at=5.48, namespace="ml", name="c0", how="deleted"),
        InjectFault(at=62.61, rule=slow),
        CreateClaim(at=75.19, namespace="ml", name="c0"),
        DisturbNode(at=83.25, name="n2", how="relabelled", seconds=30.0),
    )
    initial_state = InitialState(devices=(("gpu-0", ("n1", "n2")), ("gpu-1", ("n3",))), by_label=True)
    result = run_scenario(Scenario(seed=555001279, initial_state=initial_state, operations=operations, until=120.0))
    assert not result.violation


@pytest.mark.parametrize("taints", [False, True], ids=["untainted", "tainted"])
def test_a_claim_that_is_kept_on_a_deleted_node_is_allocated_on_an_added_node(taints):
    """The autoscaler deletes the node between two pods of a Job; it adds none while the claim is allocated there."""
    group = NodeGroup(names=("a0", "a1"), initial=1, maximum=1, unneeded=10.0, taints=taints)
    operations = (
        CreateJob(at=0.0, namespace="ml", name="train"),
        CreateClaim(at=1.0, namespace="ml", name="c0", job="train"),
        CreatePods(at=2.0, namespace="ml", names=("p0",), claims=("c0",), seconds=5.0),
        CreatePods(at=60.0, namespace="ml", names=("p1",), claims=("c0",), seconds=5.0),
    )
    initial_state = InitialState(devices=(), node_group=group)
    result = run_scenario(Scenario(seed=1, initial_state=initial_state, operations=operations, until=120.0))
    assert not result.violation
    assert result.effects[NODE_WITH_CLAIM_DELETED] == 2
    assert result.effects[NODE_ADDED] == 1


def test_an_evicted_job_keeps_its_claim_in_the_queue():
    """Kueue suspends the Job, another workload has the quota meanwhile, and the Job runs again with its devices."""
    operations = (
        CreateClaim(at=0.0, namespace="ml", name="c0", job="train"),
        CreateJob(at=1.0, namespace="ml", name="train", pods=2, claims=("c0",), gated=True, queued=True, topology=True),
        CreatePods(at=10.0, namespace="ml", names=("p0",), claims=(), seconds=20.0, queued=True),
        Evict(at=20.0, namespace="ml", name="train", how="job"),
    )
    initial_state = InitialState(quota=2, requeue_seconds=5.0)
    result = run_scenario(Scenario(seed=1, initial_state=initial_state, operations=operations, until=120.0))
    assert not result.violation
    assert (result.effects[JOB_RESUMED], result.effects[PODS_ADMITTED]) == (2, 1)
    allocations = [line for line in str(result.write_log).splitlines() if "status.allocation={" in line]
    assert len(allocations) == 1


def test_a_claim_from_a_template_is_not_made_anew_for_a_pod_that_is_gone():
    """The garbage collector deletes the claim, the pods watch is silent, and a backup brings both back."""
    operations = (
        CreatePods(at=4.97, namespace="ml", names=("p0", "p1", "p2"), claims=("c0",), template=True),
        Backup(at=46.56, how="taken"),
        InjectFault(at=52.58, rule=FaultRule(fault=Fault.EXPIRED, component="nodes", verb="watch", nth=2, times=1)),
        InjectFault(
            at=54.2,
            rule=FaultRule(
                fault=Fault.DELAY, component="workloads", verb="watch", resource="pods", times=2, seconds=25.0
            ),
        ),
        InjectFault(at=60.81, rule=FaultRule(fault=Fault.SILENCE, component="controller*", verb="watch", times=1)),
        EndPod(at=62.88, namespace="ml", name="p2", how="forced"),
        CreatePods(at=89.03, namespace="ml", names=("p2",), claims=("c0",), gated=True),
        Backup(at=117.0, how="restored"),
    )
    result = run_scenario(Scenario(seed=30002173, initial_state=ONE_GPU, operations=operations, until=162.0))
    assert not result.violation
    made = [line for line in str(result.write_log).splitlines() if "resourceclaims ml/p2-own-" in line]
    assert sum("created" in line for line in made) == 1
