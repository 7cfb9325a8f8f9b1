"""Which reservations a pod may take: rules of specs/koordinator.md A.8 in order."""

import pytest

from dra.api.reservations.model import ReservationTaint
from dra.engine.reservations.filters import check_eligibility
from dra.engine.reservations.pod_info import ReservationAffinity
from dra.engine.reservations.rejections import RejectionReason
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.scheduling import Toleration
from tests.dra.engine.reservations.examples import REQUIRED, RESTRICTED, of, pod, reservation_info
from tests.violations import for_each_case

REPELS = (ReservationTaint(key="team", value="a", effect="NoSchedule"),)
MAYBE = (ReservationTaint(key="team", effect="PreferNoSchedule"),)
EVICTS = (ReservationTaint(key="team", effect="NoExecute"),)
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


def one_claim(name="gpu", *, namespace="default", field="resourceClaimTemplateName"):
    return frozenset({(namespace, field, name)})


@for_each_case(
    [
        pytest.param(reservation_info(cpu=1), owner(), None, id="an-owner"),
        pytest.param(
            reservation_info(cpu=1, available=False), owner(), RejectionReason.NOT_AVAILABLE, id="not-available"
        ),
        pytest.param(reservation_info(cpu=1, parse_error="x"), owner(), RejectionReason.UNREADABLE, id="unreadable"),
        pytest.param(reservation_info(cpu=1, terminating=True), owner(), RejectionReason.TERMINATING, id="terminating"),
        pytest.param(reservation_info(cpu=1), pod(cpu=1, app="b"), RejectionReason.NOT_OWNER, id="no-owner"),
        pytest.param(reservation_info(cpu=1), owner(ReservationAffinity(name="r")), None, id="by-name"),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(name="q")),
            RejectionReason.OTHER_NAME,
            id="by-another-name",
        ),
        pytest.param(
            reservation_info(cpu=1, unschedulable=True),
            owner(ReservationAffinity(name="r")),
            None,
            id="cordoned-but-named",
        ),
        pytest.param(
            reservation_info(cpu=1, taints=REPELS), owner(ReservationAffinity(name="r")), None, id="tainted-but-named"
        ),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(name="r", selector={"no": "such"})),
            None,
            id="selector-does-not-count-for-a-name",
        ),
        pytest.param(
            reservation_info(cpu=1),
            pod(cpu=1, app="b", affinity=ReservationAffinity(name="r")),
            RejectionReason.NOT_OWNER,
            id="a-name-makes-no-owner",
        ),
        pytest.param(
            reservation_info(cpu=1, unschedulable=True), owner(), RejectionReason.UNSCHEDULABLE, id="cordoned"
        ),
        pytest.param(
            reservation_info(cpu=1, unschedulable=True),
            owner(REQUIRED),
            RejectionReason.UNSCHEDULABLE,
            id="cordoned-required",
        ),
        pytest.param(
            reservation_info(cpu=1, unschedulable=True),
            owner(ReservationAffinity(tolerations=(CORDON,))),
            None,
            id="cordoned-tolerated",
        ),
        pytest.param(
            reservation_info(cpu=1, taints=REPELS),
            owner(),
            RejectionReason.UNTOLERATED_TAINT,
            id="taints-repel-pods-without-affinity",
        ),
        pytest.param(
            reservation_info(cpu=1, taints=EVICTS),
            owner(REQUIRED),
            RejectionReason.UNTOLERATED_TAINT,
            id="noexecute-repels",
        ),
        pytest.param(reservation_info(cpu=1, taints=MAYBE), owner(), None, id="prefer-does-not"),
        pytest.param(
            reservation_info(cpu=1, taints=REPELS),
            owner(ReservationAffinity(tolerations=(Toleration(key="team", value="a"),))),
            None,
            id="tolerated",
        ),
        pytest.param(
            reservation_info(cpu=1, taints=REPELS),
            owner(ReservationAffinity(tolerations=(Toleration(key="team", value="b"),))),
            RejectionReason.UNTOLERATED_TAINT,
            id="another-value",
        ),
        pytest.param(
            reservation_info(cpu=1, taints=REPELS),
            owner(ReservationAffinity(tolerations=(Toleration(key="team", operator="Exists", effect="NoExecute"),))),
            RejectionReason.UNTOLERATED_TAINT,
            id="another-effect",
        ),
        pytest.param(
            reservation_info(cpu=1, taints=REPELS),
            owner(ReservationAffinity(tolerations=(Toleration(operator="Exists"),))),
            None,
            id="all",
        ),
        pytest.param(
            reservation_info(cpu=1, labels={"pool": "x"}),
            owner(ReservationAffinity(selector={"pool": "x"})),
            None,
            id="its-own-label",
        ),
        pytest.param(
            reservation_info(cpu=1), owner(ReservationAffinity(selector={"zone": "1"})), None, id="label-of-its-node"
        ),
        pytest.param(
            reservation_info(cpu=1, labels={"zone": "2"}),
            owner(ReservationAffinity(selector={"zone": "1"})),
            RejectionReason.AFFINITY_MISMATCH,
            id="its-own-label-covers-the-nodes",
        ),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(terms=terms(("zone", "In", "1"), ("zone", "In", "9")))),
            None,
            id="one-term-is-enough",
        ),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(terms=terms(("zone", "NotIn", "1")))),
            RejectionReason.AFFINITY_MISMATCH,
            id="term-does-not-hold",
        ),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(terms=NodeSelector())),
            RejectionReason.AFFINITY_MISMATCH,
            id="no-term-matches-nothing",
        ),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(terms=terms(("zone", "Exists")), selector={"no": "such"})),
            RejectionReason.AFFINITY_MISMATCH,
            id="terms-and-selector-must-hold",
        ),
        pytest.param(
            reservation_info(cpu=1), owner(ReservationAffinity(terms=field("r"))), None, id="field-of-its-name"
        ),
        pytest.param(
            reservation_info(cpu=1),
            owner(ReservationAffinity(terms=field("q"))),
            RejectionReason.AFFINITY_MISMATCH,
            id="field-of-another-name",
        ),
        pytest.param(reservation_info(cpu=1), owner(exact_match_resources=("cpu",)), None, id="exact-equal"),
        pytest.param(
            reservation_info(cpu=2),
            owner(exact_match_resources=("cpu",)),
            RejectionReason.NOT_EXACT_MATCHED,
            id="exact-different",
        ),
        pytest.param(
            reservation_info(cpu=1), owner(exact_match_resources=("cpu", "gpu")), None, id="exact-absent-on-both-sides"
        ),
        pytest.param(
            reservation_info(cpu=1, gpu=1),
            owner(exact_match_resources=("cpu", "gpu")),
            RejectionReason.NOT_EXACT_MATCHED,
            id="exact-absent-on-one-side",
        ),
        pytest.param(
            reservation_info(cpu=2),
            owner(ReservationAffinity(name="r"), exact_match_resources=("cpu",)),
            RejectionReason.NOT_EXACT_MATCHED,
            id="exact-counts-for-a-name-too",
        ),
        pytest.param(reservation_info(gpu=1), owner(), RejectionReason.NOTHING_IN_COMMON, id="nothing-in-common"),
        pytest.param(reservation_info(gpu=1), owner(REQUIRED), None, id="nothing-in-common-but-required"),
        pytest.param(
            reservation_info(cpu=1, memory=1, policy=RESTRICTED, restricted_resources=frozenset({"cpu"})),
            pod(memory=1, app="a"),
            RejectionReason.NOTHING_IN_COMMON,
            id="nothing-restricted-in-common",
        ),
        pytest.param(
            reservation_info(cpu=1, memory=1, policy=RESTRICTED, restricted_resources=frozenset({"cpu"})),
            pod(cpu=1, memory=1, app="a"),
            None,
            id="something-restricted-in-common",
        ),
        pytest.param(
            reservation_info(claims=one_claim()), pod(app="a", claims=one_claim()), None, id="a-claim-in-common"
        ),
        pytest.param(
            reservation_info(cpu=1, claims=one_claim()),
            pod(app="a", claims=one_claim()),
            None,
            id="a-claim-without-cpu",
        ),
        pytest.param(
            reservation_info(claims=one_claim()),
            pod(app="a", claims=one_claim(name="other")),
            RejectionReason.NOTHING_IN_COMMON,
            id="another-claim",
        ),
        pytest.param(
            reservation_info(claims=one_claim()),
            pod(app="a", claims=one_claim(namespace="other")),
            RejectionReason.NOTHING_IN_COMMON,
            id="a-claim-of-another-namespace",
        ),
        pytest.param(
            reservation_info(claims=one_claim()),
            pod(app="a", claims=one_claim(field="resourceClaimName")),
            RejectionReason.NOTHING_IN_COMMON,
            id="a-claim-by-name-and-one-by-template",
        ),
        pytest.param(reservation_info(), pod(app="a"), RejectionReason.NOTHING_IN_COMMON, id="a-place-alone"),
    ],
)
def test_who_may_take_which(info, candidate, reason):
    rejection = check_eligibility(info, candidate, node_labels={"zone": "1"}, new_owner_count=0)
    assert (rejection and rejection.reason) == reason


def test_a_reservation_for_one_is_used_up_by_one():
    once, again = reservation_info(cpu=1, allocate_once=True), reservation_info(cpu=1)
    assert (
        check_eligibility(once, owner(), node_labels={}, new_owner_count=1).reason is RejectionReason.ALREADY_ALLOCATED
    )
    assert check_eligibility(again, owner(), node_labels={}, new_owner_count=1) is None


def test_a_refusal_names_the_taint_as_upstream_does():
    rejection = check_eligibility(reservation_info(cpu=1, taints=REPELS), owner(), node_labels={}, new_owner_count=0)
    assert rejection.text == "Reservation(s) had untolerated taint {team: a}"


def test_amounts_are_compared_exactly():
    assert (
        check_eligibility(
            reservation_info(cpu="1000m"), owner(exact_match_resources=("cpu",)), node_labels={}, new_owner_count=0
        )
        is None
    )
    assert of("0.1") == of("100m")
