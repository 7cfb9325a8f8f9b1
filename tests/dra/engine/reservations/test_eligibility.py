"""Which reservations a pod may take: rules of specs/koordinator.md A.8 in order."""

import pytest

from dra.api.reservations.model import Taint
from dra.engine.reservations.claimants import Affinity
from dra.engine.reservations.eligibility import judge
from dra.engine.reservations.refusals import Why
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.placement import Toleration
from tests.dra.engine.reservations.examples import REQUIRED, RESTRICTED, holding, of, pod

REPELS = (Taint(key="team", value="a", effect="NoSchedule"),)
MAYBE = (Taint(key="team", effect="PreferNoSchedule"),)
EVICTS = (Taint(key="team", effect="NoExecute"),)
CORDON = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")


def terms(*requirements):
    return NodeSelector(
        node_selector_terms=[
            NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key=k, operator=o, values=list(v))])
            for k, o, *v in requirements
        ]
    )


def field(name):
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=[name])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[requirement])])


def owner(affinity=None, **fields):
    return pod(cpu=1, app="a", affinity=affinity, **fields)


@pytest.mark.parametrize(
    ("held", "claimant", "why"),
    [
        pytest.param(holding(cpu=1), owner(), None, id="an-owner"),
        pytest.param(holding(cpu=1, available=False), owner(), Why.NOT_AVAILABLE, id="not-available"),
        pytest.param(holding(cpu=1, fault="x"), owner(), Why.UNREADABLE, id="unreadable"),
        pytest.param(holding(cpu=1, terminating=True), owner(), Why.TERMINATING, id="terminating"),
        pytest.param(holding(cpu=1), pod(cpu=1, app="b"), Why.NOT_OWNER, id="no-owner"),
        pytest.param(holding(cpu=1), owner(Affinity(name="r")), None, id="by-name"),
        pytest.param(holding(cpu=1), owner(Affinity(name="q")), Why.OTHER_NAME, id="by-another-name"),
        pytest.param(holding(cpu=1, unschedulable=True), owner(Affinity(name="r")), None, id="cordoned-but-named"),
        pytest.param(holding(cpu=1, taints=REPELS), owner(Affinity(name="r")), None, id="tainted-but-named"),
        pytest.param(
            holding(cpu=1),
            owner(Affinity(name="r", selector={"no": "such"})),
            None,
            id="selector-does-not-count-for-a-name",
        ),
        pytest.param(
            holding(cpu=1), pod(cpu=1, app="b", affinity=Affinity(name="r")), Why.NOT_OWNER, id="a-name-makes-no-owner"
        ),
        pytest.param(holding(cpu=1, unschedulable=True), owner(), Why.UNSCHEDULABLE, id="cordoned"),
        pytest.param(holding(cpu=1, unschedulable=True), owner(REQUIRED), Why.UNSCHEDULABLE, id="cordoned-required"),
        pytest.param(
            holding(cpu=1, unschedulable=True), owner(Affinity(tolerations=(CORDON,))), None, id="cordoned-tolerated"
        ),
        pytest.param(holding(cpu=1, taints=REPELS), owner(), Why.TAINTED, id="taints-repel-pods-without-affinity"),
        pytest.param(holding(cpu=1, taints=EVICTS), owner(REQUIRED), Why.TAINTED, id="noexecute-repels"),
        pytest.param(holding(cpu=1, taints=MAYBE), owner(), None, id="prefer-does-not"),
        pytest.param(
            holding(cpu=1, taints=REPELS),
            owner(Affinity(tolerations=(Toleration(key="team", value="a"),))),
            None,
            id="tolerated",
        ),
        pytest.param(
            holding(cpu=1, taints=REPELS),
            owner(Affinity(tolerations=(Toleration(key="team", value="b"),))),
            Why.TAINTED,
            id="another-value",
        ),
        pytest.param(
            holding(cpu=1, taints=REPELS),
            owner(Affinity(tolerations=(Toleration(key="team", operator="Exists", effect="NoExecute"),))),
            Why.TAINTED,
            id="another-effect",
        ),
        pytest.param(
            holding(cpu=1, taints=REPELS), owner(Affinity(tolerations=(Toleration(operator="Exists"),))), None, id="all"
        ),
        pytest.param(
            holding(cpu=1, labels={"pool": "x"}), owner(Affinity(selector={"pool": "x"})), None, id="its-own-label"
        ),
        pytest.param(holding(cpu=1), owner(Affinity(selector={"zone": "1"})), None, id="label-of-its-node"),
        pytest.param(
            holding(cpu=1, labels={"zone": "2"}),
            owner(Affinity(selector={"zone": "1"})),
            Why.AFFINITY,
            id="its-own-label-covers-the-nodes",
        ),
        pytest.param(
            holding(cpu=1),
            owner(Affinity(terms=terms(("zone", "In", "1"), ("zone", "In", "9")))),
            None,
            id="one-term-is-enough",
        ),
        pytest.param(
            holding(cpu=1), owner(Affinity(terms=terms(("zone", "NotIn", "1")))), Why.AFFINITY, id="term-does-not-hold"
        ),
        pytest.param(holding(cpu=1), owner(Affinity(terms=NodeSelector())), Why.AFFINITY, id="no-term-matches-nothing"),
        pytest.param(
            holding(cpu=1),
            owner(Affinity(terms=terms(("zone", "Exists")), selector={"no": "such"})),
            Why.AFFINITY,
            id="terms-and-selector-must-hold",
        ),
        pytest.param(holding(cpu=1), owner(Affinity(terms=field("r"))), None, id="field-of-its-name"),
        pytest.param(holding(cpu=1), owner(Affinity(terms=field("q"))), Why.AFFINITY, id="field-of-another-name"),
        pytest.param(holding(cpu=1), owner(exact=("cpu",)), None, id="exact-equal"),
        pytest.param(holding(cpu=2), owner(exact=("cpu",)), Why.NOT_EXACT, id="exact-different"),
        pytest.param(holding(cpu=1), owner(exact=("cpu", "gpu")), None, id="exact-absent-on-both-sides"),
        pytest.param(holding(cpu=1, gpu=1), owner(exact=("cpu", "gpu")), Why.NOT_EXACT, id="exact-absent-on-one-side"),
        pytest.param(
            holding(cpu=2), owner(Affinity(name="r"), exact=("cpu",)), Why.NOT_EXACT, id="exact-counts-for-a-name-too"
        ),
        pytest.param(holding(gpu=1), owner(), Why.NOTHING_IN_COMMON, id="nothing-in-common"),
        pytest.param(holding(gpu=1), owner(REQUIRED), None, id="nothing-in-common-but-required"),
        pytest.param(
            holding(cpu=1, memory=1, policy=RESTRICTED, restricted=frozenset({"cpu"})),
            pod(memory=1, app="a"),
            Why.NOTHING_IN_COMMON,
            id="nothing-restricted-in-common",
        ),
        pytest.param(
            holding(cpu=1, memory=1, policy=RESTRICTED, restricted=frozenset({"cpu"})),
            pod(cpu=1, memory=1, app="a"),
            None,
            id="something-restricted-in-common",
        ),
    ],
)
def test_who_may_take_which(held, claimant, why):
    refusal = judge(held, claimant, node_labels={"zone": "1"}, consumers=0)
    assert (refusal and refusal.why) == why


def test_a_reservation_for_one_is_used_up_by_one():
    once, again = holding(cpu=1, allocate_once=True), holding(cpu=1)
    assert judge(once, owner(), node_labels={}, consumers=1).why is Why.USED_UP
    assert judge(again, owner(), node_labels={}, consumers=1) is None


def test_a_refusal_names_the_taint_as_upstream_does():
    refusal = judge(holding(cpu=1, taints=REPELS), owner(), node_labels={}, consumers=0)
    assert refusal.text == "Reservation(s) had untolerated taint {team: a}"


def test_amounts_are_compared_exactly():
    assert judge(holding(cpu="1000m"), owner(exact=("cpu",)), node_labels={}, consumers=0) is None
    assert of("0.1") == of("100m")
