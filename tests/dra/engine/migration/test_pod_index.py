"""PodIndex: the same answers as a scan of a list of pods, whatever is observed and forgotten."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dra.engine.migration.pod_index import PodIndex, is_unavailable, workload_of
from tests.dra.engine.migration.examples import at, pod

NAMES = ["a", "b", "c"]
WORKLOADS = ["web", "db", ""]


class PodIndexMachine(RuleBasedStateMachine):
    """Observes and forgets pods in an index and in a list."""

    def __init__(self):
        super().__init__()
        self.index = PodIndex()
        self.pods = []

    @rule(
        name=st.sampled_from(NAMES),
        incarnation=st.integers(0, 1),
        owner=st.sampled_from(WORKLOADS),
        ready=st.booleans(),
        phase=st.sampled_from(["Running", "Pending", "Succeeded"]),
        deleting=st.booleans(),
    )
    def observe(self, name, incarnation, owner, ready, phase, deleting):
        deletion = {"deletionTimestamp": at(0)} if deleting else {}
        metadata = {"uid": f"{name}-{incarnation}", **deletion}
        found = pod(name, owner=owner, ready=ready, metadata=metadata, status={"phase": phase})
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
            workload = f"uid-of-{owner}"
            found = [each for each in self.pods if workload_of(each) == workload and not each.terminal]
            assert self.index.pods_of(workload) == len(found)
            assert self.index.unavailable_of(workload) == sum(map(is_unavailable, found))

    def teardown(self):
        for each in self.pods:
            self.index.forget(each.metadata.uid)
        assert not any(vars(self.index).values())


TestPodIndex = PodIndexMachine.TestCase
