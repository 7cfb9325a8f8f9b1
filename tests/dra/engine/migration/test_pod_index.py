"""PodIndex: the same answers as a scan of a list of pods, whatever is observed and forgotten."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dra.engine.migration.pod_index import (
    PodCounts,
    PodIndex,
    WorkloadKey,
    budget_trait,
    is_unavailable,
    namespace_trait,
    workload_of,
    workload_trait,
)
from dra.engine.migration.pod_memory import SharedParts
from tests.dra.engine.migration.examples import at, pod

NAMES = ["a", "b", "c"]
WORKLOADS = ["web", "db", ""]
APPS = ["x", "y", ""]


def is_of(found, app):
    return found.metadata.labels.get("app") == app and workload_of(found) == workload("web")


def workload(name):
    return WorkloadKey(namespace="ns", group="apps", kind="ReplicaSet", name=name, uid=f"uid-of-{name}")


class PodIndexMachine(RuleBasedStateMachine):
    """Observes and forgets pods in an index and in a list."""

    def __init__(self):
        super().__init__()
        self.index = PodIndex()
        self.pods = []

    @rule(
        name=st.sampled_from(NAMES),
        incarnation=st.integers(0, 1),
        belongs_to=st.tuples(st.sampled_from(WORKLOADS), st.sampled_from(APPS)),
        ready=st.booleans(),
        phase=st.sampled_from(["Running", "Pending", "Succeeded"]),
        deleting=st.booleans(),
    )
    def observe(self, name, incarnation, belongs_to, ready, phase, deleting):
        owner, app = belongs_to
        deletion = {"deletionTimestamp": at(0)} if deleting else {}
        metadata = {"uid": f"{name}-{incarnation}", **deletion}
        labels = {"app": app} if app else {}
        found = pod(name, owner=owner, ready=ready, labels=labels, metadata=metadata, status={"phase": phase})
        self.pods = [*(each for each in self.pods if each.metadata.name != name), found]
        self.index.observe(found)

    @rule(name=st.sampled_from(NAMES), incarnation=st.integers(0, 1))
    def forget(self, name, incarnation):
        uid = f"{name}-{incarnation}"
        self.pods = [each for each in self.pods if each.metadata.uid != uid]
        self.index.forget(uid)

    @invariant()
    def the_answers_are_those_of_a_scan(self):
        for name in NAMES:
            named = next((each for each in self.pods if each.metadata.name == name), None)
            assert self.index.by_key(("ns", name)) is named
        for owner in WORKLOADS:
            wanted = workload(owner)
            found = [each for each in self.pods if workload_of(each) == wanted and not each.terminal]
            assert self.index.pods_of(wanted) == len(found)
            assert self.index.unavailable_of(wanted) == sum(map(is_unavailable, found))

    @invariant()
    def the_healthy_pods_are_those_of_a_scan(self):
        healthy = [each for each in self.pods if not is_unavailable(each)]
        index = self.index.healthy
        assert index.count([namespace_trait("ns")], lambda _: True) == len(healthy)
        for app in APPS[:2]:
            found = [each for each in healthy if each.metadata.labels.get("app") == app]
            assert index.count([("ns", "app", app)], lambda _: True) == len(found)
            of_web = [each for each in found if workload_of(each) == workload("web")]
            both = [("ns", "app", app), workload_trait("ns", "web")]
            assert index.count([index.rarest(both)], lambda each, app=app: is_of(each, app)) == len(of_web)

    def teardown(self):
        for each in self.pods:
            self.index.forget(each.metadata.uid)
        assert not any(vars(self.index).values())


TestPodIndex = PodIndexMachine.TestCase


class Counted(PodCounts):
    """Pods that are counted at once."""

    def __init__(self, pods):
        super().__init__()
        self.count_all(pods)

    def by_key(self, key):
        raise AssertionError(f"nobody asks for {key}")


STATES = st.fixed_dictionaries(
    {
        "owner": st.sampled_from(WORKLOADS),
        "labels": st.sampled_from(APPS).map(lambda app: {"app": app} if app else {}),
        "ready": st.booleans(),
        "metadata": st.sampled_from(
            [{}, {"deletionTimestamp": at(0)}, {"annotations": {"kruise.io/related-pub": "budget"}}]
        ),
        "status": st.sampled_from(["Running", "Pending", "Succeeded"]).map(lambda phase: {"phase": phase}),
    }
)


@given(states=st.lists(STATES, max_size=12), share=st.booleans())
def test_pods_that_are_counted_at_once_count_as_those_observed_one_by_one(states, share):
    pods = [pod(f"p{number}", **state) for number, state in enumerate(states)]
    parts = SharedParts()
    for each in pods:
        if share:
            parts.share(each)
    at_once, one_by_one = Counted(pods), PodIndex(pods)
    for name in WORKLOADS:
        assert at_once.pods_of(workload(name)) == one_by_one.pods_of(workload(name))
        assert at_once.unavailable_of(workload(name)) == one_by_one.unavailable_of(workload(name))
    traits = [namespace_trait("ns"), workload_trait("ns", "web"), budget_trait("ns", "budget"), ("ns", "app", "x")]
    for trait in traits:
        assert at_once.healthy.count([trait], lambda _: True) == one_by_one.healthy.count([trait], lambda _: True)
    assert at_once.healthy.rarest(traits) == one_by_one.healthy.rarest(traits)
    assert len(at_once.healthy) == len(one_by_one.healthy)
