"""Who has to be looked at again."""

import msgspec
import pytest

from tests.dra.engine.claims.generation.examples import claim, entry, group, owners, pod, record, see, template
from tests.violations import combinations, for_each_case, named

POD, GROUP = "uid-p", "uid-g"
A = entry("a")
RECORDED = pod(A, records=[record("a", "p-a-1")])
MADE = claim("p-a-1", made_for="a")


@for_each_case(
    [
        pytest.param([], pod(A), {POD}, id="a-pod"),
        pytest.param([pod(A)], pod(A), set(), id="the-same-pod"),
        pytest.param([pod(A)], template(), {POD}, id="its-template"),
        pytest.param([pod(A)], template("other"), set(), id="another-template"),
        pytest.param([pod(A)], MADE, {POD}, id="a-claim-it-owns"),
        pytest.param([RECORDED, MADE], MADE, set(), id="a-claim-changes"),
        pytest.param([pod(A, group="g")], group(A), {POD, GROUP}, id="its-group"),
        pytest.param(
            [pod(A, group="g"), group(A)],
            claim("g-a-1", owner="g", made_for="a", kind="PodGroup"),
            {POD, GROUP},
            id="a-claim-its-group-owns",
        ),
        pytest.param([], pod(), set(), id="a-pod-without-claims"),
    ]
)
def test_who_is_dirty(before, news, dirty):
    index, claims = owners(*before)
    index.dirty.clear()
    see(index, news, claims)
    assert set(index.dirty) == dirty


def test_who_has_lost_its_claim_is_dirty():
    index, _ = owners(RECORDED, MADE)
    index.dirty.clear()
    index.forget_claim(MADE)
    assert set(index.dirty) == {POD}
    assert index.claims_of(("ml", "p"), POD) == frozenset()


def test_nothing_is_kept_of_who_is_gone():
    index, _ = owners(RECORDED, pod(A, group="g", name="q"), group(A), template())
    for uid in (POD, "uid-q", GROUP):
        index.forget(uid)
        assert index.view(uid, claim=lambda _: None) is None
    index.dirty.clear()
    index.observe_template(template())
    index.observe_group(group(A))
    assert set(index.dirty) == {GROUP}


def of(claim, *, namespace="ml", **owner):
    """The claim in a namespace, with other fields of its controller reference."""
    (reference,) = claim.metadata.owner_references
    reference = msgspec.structs.replace(reference, **owner)
    meta = msgspec.structs.replace(claim.metadata, namespace=namespace, owner_references=[reference])
    return msgspec.structs.replace(claim, metadata=meta)


STRANGERS = [
    pytest.param(of(MADE, namespace="other"), id="in-another-namespace"),
    pytest.param(of(MADE, kind="Job", api_version="batch/v1"), id="of-another-kind"),
    pytest.param(of(MADE, name="q"), id="of-another-name"),
    pytest.param(of(MADE, uid="uid-q"), id="of-another-uid"),
]


@for_each_case(combinations(STRANGERS, named([True, False], ["before-the-pod", "after-the-pod"])))
def test_a_claim_that_only_seems_to_be_of_a_pod_is_not_its_claim(stranger, stranger_first):
    index, claims = owners(*([stranger, pod(A)] if stranger_first else [pod(A)]))
    index.dirty.clear()
    see(index, stranger, claims)
    assert set(index.dirty) == set()
    see(index, template(), claims)
    found = index.view(POD, claim=claims.get)
    assert (found.owned, index.claims_of(("ml", "p"), POD)) == ((), frozenset())
    index.dirty.clear()
    index.forget_claim(stranger)
    assert set(index.dirty) == set()


def test_a_claim_in_another_namespace_is_not_that_of_a_pod_s_group():
    made = of(claim("g-a-1", owner="g", made_for="a", kind="PodGroup"), namespace="other")
    index, claims = owners(pod(A, group="g"), group(A), made)
    assert index.view(POD, claim=claims.get).group_owned == ()


def test_a_held_claim_is_free_though_its_controller_has_the_uid_of_a_pod_of_another_namespace():
    """Its controller, a pod of its own namespace, is gone."""
    index, _ = owners(pod(A))
    held = of(MADE, namespace="other")
    (reservation,) = (msgspec.structs.replace(r, uid="uid-r") for r in held.metadata.owner_references)
    assert index._former(held, reservation, lambda _: True) == "pod p"
