"""Which claims an owner lacks, and what its status should name."""

import msgspec
import pytest

from dra.engine.claims import consumers
from dra.engine.claims.codes import Code
from dra.engine.claims.generation.claim_owners import belongs_to_owner
from dra.engine.claims.generation.decide import decide
from dra.model.meta import Uid
from tests.dra.engine.claims.generation.examples import (
    by_name,
    claim,
    entry,
    group,
    owners,
    pod,
    record,
    template,
    view,
)
from tests.violations import for_each_case

A, B = entry("a"), entry("b")
MADE_A, MADE_B = claim("p-a-1", made_for="a"), claim("p-b-1", made_for="b")


def created(plan):
    return [action.entry for action in plan.create]


def recorded(plan):
    return {c.name: c.resource_claim_name for c in plan.record.claims} if plan.record else None


@for_each_case(
    [
        pytest.param([pod(A), template()], ["a"], None, id="made"),
        pytest.param([pod(A), template(), MADE_A], [], {"a": "p-a-1"}, id="made-and-not-recorded-is-taken"),
        pytest.param([pod(A, records=[record("a", "p-a-1")]), template(), MADE_A], [], None, id="all-is-well"),
        pytest.param([pod(A, records=[record("a", "p-a-1")]), template()], ["a"], None, id="lost-is-made-again"),
        pytest.param([pod(A, records=[record("a", None)]), template()], [], None, id="recorded-as-needless"),
        pytest.param([pod(A, B), template(), MADE_A], ["b"], None, id="all-are-made-before-any-is-recorded"),
        pytest.param(
            [pod(A, B, records=[record("a", "p-a-1")]), template(), MADE_A, MADE_B],
            [],
            {"a": "p-a-1", "b": "p-b-1"},
            id="the-status-is-written-whole",
        ),
        pytest.param([pod(by_name("a", "x"), B), template(), MADE_B], [], {"b": "p-b-1"}, id="others-are-the-users"),
        pytest.param([pod(A, phase="Succeeded"), template()], [], None, id="a-finished-pod-needs-none"),
        pytest.param([pod(A, deleted=True), template()], [], None, id="a-deleted-pod-needs-none"),
        pytest.param(
            [pod(A, records=[record("a", "x")]), template(), claim("x", owner="q")],
            [],
            None,
            id="somebody-elses-claim-alone-is-left",
        ),
        pytest.param(
            [pod(A, B, records=[record("a", "x")]), template(), claim("x", owner="q")],
            ["a", "b"],
            None,
            id="and-replaced-where-the-status-is-written-anyway",
        ),
    ]
)
def test_claims_of_a_pod(objects, create, record_as):
    plan = decide(view(*objects))
    assert (created(plan), recorded(plan)) == (create, record_as)
    assert not plan.reasons


def test_a_missing_template_is_told_in_the_words_of_the_stock_controller_and_keeps_what_comes_behind_it():
    plan = decide(view(pod(A, entry("b", "missing"), entry("c")), template()))
    assert created(plan) == ["a"]
    assert plan.record is None
    (reason,) = plan.reasons
    assert reason.code is Code.GENERATION_FAILED
    assert reason.text == (
        "pod ml/p: PodResourceClaim b: "
        'resource claim template "missing": resourceclaimtemplate.resource.k8s.io "missing" not found'
    )


def test_somebody_elses_claim_is_replaced_before_anything_is_recorded_or_nothing_is():
    of = pod(A, entry("b", "missing"), records=[record("b", "x")])
    plan = decide(view(of, template(), MADE_A, claim("x", owner="q")))
    assert (created(plan), recorded(plan), len(plan.reasons)) == ([], None, 1)


GROUPED = pod(A, B, group="g")
OF_GROUP = claim("g-a-1", owner="g", made_for="a", kind="PodGroup")


@pytest.mark.parametrize(
    ("objects", "groups_version", "create", "record_as"),
    [
        pytest.param([GROUPED, template()], "", ["a", "b"], None, id="a-server-without-groups"),
        pytest.param([GROUPED, template()], "v1alpha2", [], None, id="a-group-not-seen-yet-may-share"),
        pytest.param(
            [GROUPED, group(A), template(), MADE_B], "v1alpha2", [], {"b": "p-b-1"}, id="shared-is-waited-for"
        ),
        pytest.param(
            [GROUPED, group(A), template(), MADE_B, OF_GROUP],
            "v1alpha2",
            [],
            {"a": "g-a-1", "b": "p-b-1"},
            id="shared-is-recorded",
        ),
        pytest.param(
            [GROUPED, group(entry("a", "other")), template()], "v1alpha2", ["a", "b"], None, id="another-template"
        ),
    ],
)
def test_pods_of_a_group_share_the_claims_that_its_spec_names_alike(objects, groups_version, create, record_as):
    plan = decide(view(*objects, groups_version=groups_version))
    assert (created(plan), recorded(plan)) == (create, record_as)


def test_a_group_has_claims_of_its_own():
    plan = decide(view(group(A), template(), of="g", groups_version="v1alpha2"))
    assert created(plan) == ["a"]
    plan = decide(view(group(A), template(), OF_GROUP, of="g", groups_version="v1alpha2"))
    assert recorded(plan) == {"a": "g-a-1"}
    plan = decide(view(group(A), of="g", groups_version="v1alpha2"))
    assert plan.reasons[0].note.startswith("PodGroupResourceClaim a: ")


def test_a_pod_whose_group_cannot_be_read_is_told_and_gets_nothing_yet():
    index, claims = owners(pod(A, group="g"), template())
    index.observe_groups_readable("podgroups.scheduling.k8s.io: no right")
    plan = decide(index.view(Uid("uid-p"), claim=claims.get))
    assert plan.done
    (reason,) = plan.reasons
    assert (reason.code, "no right" in reason.note) == (Code.WAITS_FOR_GROUP, True)
    index.observe_groups_readable("")
    assert set(index.dirty) == {"uid-p"}
    assert decide(index.view(Uid("uid-p"), claim=claims.get)).create


def test_a_claim_of_another_kind_of_pod_group_is_somebody_elses():
    """Volcano has PodGroups, too: a claim that is controlled by one is not the Kubernetes PodGroup's."""
    of = claim("theirs", owner="g", kind="PodGroup")
    owner = msgspec.structs.replace(of.controller, api_version="scheduling.volcano.sh/v1beta1")
    theirs = msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, owner_references=[owner]))
    for each, whose in ((of, True), (theirs, False)):
        found = view(pod(A, records=[record("a", "theirs")], group="g"), template(), each)
        assert belongs_to_owner(each, found) is whose
        consumer = consumers.consumer_of(
            pod(A, records=[record("a", "theirs")], group="g"), before=None, started=False, now=0.0
        )
        assert consumer.may_use(each) is whose
