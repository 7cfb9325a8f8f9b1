"""Arbitration of random clusters gives the verdicts of a naive reading of the rules, in the same order."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dra.api.descheduler.migration_controller_args import EvictionGate
from dra.engine.migration.arbitration import arbitrate
from dra.model.preemption import PodUnavailableBudget
from tests.dra.engine.migration import naive_arbitration
from tests.dra.engine.migration.examples import NOW, at, budget, job, limits, pod, view

COSTS = ["-3", "2147483647", None]
OWNERS = [("web", "ReplicaSet"), ("db", "StatefulSet"), ("batch", "Job"), ("task", "Job"), ("", "")]


@st.composite
def pods(draw, name):
    owner, kind = draw(st.sampled_from(OWNERS))
    phase = draw(st.sampled_from(["Running"] * 6 + ["Pending", "Failed", "Succeeded"]))
    annotations = {}
    if (cost := draw(st.sampled_from([None] * 6 + COSTS))) is not None:
        annotations["scheduling.koordinator.sh/eviction-cost"] = cost
    if draw(st.integers(0, 9)) == 0:
        annotations["descheduler.alpha.kubernetes.io/evict"] = "true"
    forged = {}
    if owner and draw(st.integers(0, 4)) == 0:
        reference = {"apiVersion": "none.example.com/v1", "kind": "Foo", "name": "x", "controller": True}
        forged["ownerReferences"] = [{**reference, "uid": f"uid-of-{owner}"}]
    if draw(st.integers(0, 4)) == 0:
        forged["namespace"] = "evil"
    deleting = {"deletionTimestamp": at(0)} if draw(st.integers(0, 9)) == 0 else {}
    return pod(
        name,
        node="" if phase == "Pending" else draw(st.sampled_from(["n1", "n2"])),
        owner=owner,
        kind=kind,
        ready=phase == "Running" and draw(st.integers(0, 3)) > 0,
        created=draw(st.integers(0, 2)),
        labels={"app": draw(st.sampled_from(["web", "db"]))},
        metadata={"annotations": annotations, **deleting, **forged},
        spec={"priority": draw(st.sampled_from([0, 5500, 9500]))},
        status={"phase": phase, "qosClass": draw(st.sampled_from(["BestEffort", "Burstable", "Guaranteed"]))},
    )


@st.composite
def jobs(draw, name, *, count):
    if draw(st.integers(0, 4)) == 0:
        phase = draw(st.sampled_from(["Running", "Succeeded", "Failed"]))
        return job(name, of=f"gone-{name}", evicted=-draw(st.integers(0, 90)), passed=True, phase=phase)
    policy = draw(st.sampled_from(["", "", "", "Delete", "SoftEviction"]))
    phase = draw(st.sampled_from(["", "", "", "Running", "Failed"]))
    return job(
        name,
        of=f"p{draw(st.integers(0, count))}",
        created=draw(st.integers(0, 3)),
        passed=phase == "Running" or draw(st.integers(0, 4)) == 0,
        phase=phase,
        by=draw(st.sampled_from(["", "koord-descheduler"])),
        paused=draw(st.integers(0, 9)) == 0,
        mode=draw(st.sampled_from(["", "EvictDirectly"])),
        labels={"koordinator.sh/evict-policy": policy} if policy else {},
        namespace=draw(st.sampled_from(["ns", "ns", "evil"])),
    )


@st.composite
def disruption_budgets(draw, name):
    return budget(
        name,
        allowed=draw(st.integers(0, 3)),
        app=draw(st.sampled_from(["web", "db"])),
        generation=draw(st.sampled_from([1, 1, 1, 2])),
        policy=draw(st.sampled_from(["", "AlwaysAllow"])),
        healthy=draw(st.integers(0, 3)),
        desired=draw(st.integers(0, 3)),
        selector=draw(st.sampled_from([None, None, {}])),
        disrupted=draw(st.sets(st.sampled_from(["p0", "p1", "p2"]))),
    )


@st.composite
def unavailable_budgets(draw, name):
    target = {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}}
    spec = draw(st.sampled_from([target, {"selector": {"matchLabels": {"app": "web"}}}]))
    recorded = st.sampled_from([{}, {}, {"p0": at(0)}, {"p1": at(0)}])
    status = {
        "unavailableAllowed": draw(st.integers(0, 2)),
        "desiredAvailable": draw(st.integers(0, 2)),
        "disruptedPods": draw(recorded),
        "unavailablePods": draw(recorded),
    }
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, "status": status}, PodUnavailableBudget
    )


@st.composite
def configurations(draw):
    several = st.sampled_from([None, 1, 2, "50%", "100%"])
    return limits(
        maxMigratingGlobally=draw(st.sampled_from([None, None, 0, 2, 4])),
        maxMigratingPerNode=draw(st.sampled_from([None, 1, 2])),
        maxMigratingPerNamespace=draw(st.sampled_from([None, None, 3])),
        maxMigratingPerWorkload=draw(several),
        maxUnavailablePerWorkload=draw(several),
        objectLimiters={"workload": {"duration": draw(st.sampled_from(["0s", "60s"])), "maxMigrating": draw(several)}},
        skipCheckExpectedReplicas=draw(st.booleans()),
        skipEvictionGates=draw(st.lists(st.sampled_from(list(EvictionGate)), max_size=2)),
    )


@st.composite
def clusters(draw):
    count = draw(st.integers(1, 10))
    found = [draw(pods(f"p{each}")) for each in range(count)]
    known = draw(st.sampled_from([{}, {"web": 4}, {"web": 1, "db": 12, "batch": 0}]))
    unread = draw(st.sampled_from([(), (), ("web",), ("batch", "task")]))
    budgets = {
        "disruption_budgets": tuple(draw(disruption_budgets(f"d{each}")) for each in range(draw(st.integers(0, 2)))),
        "unavailable_budgets": tuple(draw(unavailable_budgets(f"u{each}")) for each in range(draw(st.integers(0, 2)))),
    }
    asking = [draw(jobs(f"j{each}", count=count)) for each in range(draw(st.integers(1, 12)))]
    return view(asking, found, replicas=known, unread=unread, **budgets), found


@given(cluster=clusters(), args=configurations())
def test_the_verdicts_are_those_of_the_rules(cluster, args):
    given_view, found = cluster
    verdicts = arbitrate(given_view, args=args, now=NOW)
    wanted = naive_arbitration.arbitrate(given_view, found, args=args, now=NOW)
    assert [(each.job, each.reason) for each in verdicts] == wanted


@given(cluster=clusters(), args=configurations())
def test_a_waiting_job_is_looked_at_again_when_evictions_leave_the_window(cluster, args):
    given_view, _ = cluster
    for each in arbitrate(given_view, args=args, now=NOW):
        assert each.wake_at > NOW
