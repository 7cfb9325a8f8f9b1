"""Who has to be looked at again."""

import pytest

from tests.dra.engine.claims.generation.examples import claim, entry, group, owners, pod, record, see, template

POD, GROUP = "uid-p", "uid-g"
A = entry("a")
RECORDED = pod(A, records=[record("a", "p-a-1")])
MADE = claim("p-a-1", made_for="a")


@pytest.mark.parametrize(
    ("before", "news", "dirty"),
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
    ],
)
def test_who_is_dirty(before, news, dirty):
    index, claims = owners(*before)
    index.dirty.clear()
    see(index, news, claims)
    assert index.dirty == dirty


def test_who_has_lost_its_claim_is_dirty():
    index, _ = owners(RECORDED, MADE)
    index.dirty.clear()
    index.forget_claim(MADE)
    assert index.dirty == {POD}
    assert index.claims_of(POD) == frozenset()


def test_nothing_is_kept_of_who_is_gone():
    index, _ = owners(RECORDED, pod(A, group="g", name="q"), group(A), template())
    for uid in (POD, "uid-q", GROUP):
        index.forget(uid)
        assert index.view(uid, claim=lambda _: None) is None
    index.dirty.clear()
    index.observe_template(template())
    index.observe_group(group(A))
    assert index.dirty == {GROUP}
