"""The index of templates: what is decided again after a change, and which pods a decision looks at."""

import msgspec
import pytest

from dra.engine.claims.codes import Code
from dra.engine.claims.reasons import pod_reason
from dra.engine.instants import NEVER
from dra.engine.translation.template_index import REMAKE_INTERVAL, TemplateIndex, TemplateView
from dra.engine.translation.template_plan import TemplatePlan
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from tests.dra.engine.translation.cluster_objects import BYTES, GIBI, HALF, NAMESPACE, cards, claim, pod, template

KEY = (NAMESPACE, HALF)
CARRIED_OUT, WAITS = TemplatePlan(), TemplatePlan(wake_at=10.0)


@pytest.fixture
def index() -> TemplateIndex:
    return TemplateIndex()


def view(index: TemplateIndex, key: Key = KEY, *claims: ResourceClaim) -> TemplateView:
    known = {claim.metadata.key: claim for claim in claims}
    index.dirty.clear()
    return index.view(key, claims=known, pods_known=True)


def decided(index: TemplateIndex, plan: TemplatePlan = CARRIED_OUT, key: Key = KEY) -> TemplateView:
    """Return the view of a decision that is then carried out."""
    seen = view(index, key)
    index.carried_out(seen, plan)
    return seen


def names(found: TemplateView) -> list[str]:
    return [each.key[1] for each in found.pods]


def test_a_pod_makes_each_template_that_it_names_dirty(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", HALF, BYTES, HALF))
    assert set(index.dirty) == {KEY, (NAMESPACE, BYTES)}
    assert (view(index).in_use, view(index, (NAMESPACE, BYTES)).in_use) == (True, True)


def test_pods_that_name_other_templates_take_no_place(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", "my-template", "koord-gpu-r150-s1"))
    assert not index.dirty
    assert not index._pods


def test_a_plan_that_is_carried_out_looks_at_a_pod_once(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    assert names(view(index)) == ["a"]
    assert names(decided(index)) == ["a"]
    index.observe_pod(pod("b"))
    index.observe_pod(pod("a"))
    assert names(decided(index)) == ["b"]
    index.observe_pod(pod("a", claims=True))
    assert names(decided(index)) == ["a"]
    assert names(view(index)) == []


def test_pods_of_a_plan_that_waits_are_looked_at_with_the_next_one(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    decided(index, WAITS)
    assert names(view(index)) == ["a"]


def test_a_pod_that_changes_while_a_plan_is_carried_out_is_looked_at_again(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    index.observe_pod(pod("b"))
    seen = view(index)
    index.observe_pod(pod("a", claims=True))
    index.carried_out(seen, CARRIED_OUT)
    assert names(view(index)) == ["a"]


def test_a_refused_creation_waits_ever_longer_until_one_succeeds(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    due = []
    for _ in range(11):
        index.creation_refused(view(index), now=100.0)
        due.append(view(index).created_from - 100.0)
    assert due == [pytest.approx(seconds) for seconds in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0)]
    assert names(view(index)) == [], "the pods have been told"
    decided(index)
    index.creation_refused(view(index), now=200.0)
    assert view(index).created_from == pytest.approx(200.2)


def test_a_template_is_deleted_once_in_a_while(index: TemplateIndex) -> None:
    assert view(index).deleted_from == -NEVER
    index.template_deleted(KEY, now=100.0)
    assert view(index).deleted_from == 100.0 + REMAKE_INTERVAL
    index.template_deleted((NAMESPACE, BYTES), now=100.0 + REMAKE_INTERVAL)
    assert view(index).deleted_from == -NEVER


def test_all_pods_are_looked_at_after_a_batch_that_has_changed_the_card_sizes(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    decided(index)
    index.settle(now=0.0)
    assert not index.dirty
    index.sizes.observe_slice(cards("n", "16Gi"))
    assert view(index).card_sizes == (), "the batch has not ended"
    index.settle(now=0.0)
    assert set(index.dirty) == {KEY}
    seen = decided(index)
    assert (names(seen), seen.card_sizes) == (["a"], (16 * GIBI,))
    index.settle(now=0.0)
    assert not index.dirty


def test_a_reason_is_reported_once_on_a_pod_that_exists(index: TemplateIndex) -> None:
    reasons = [
        pod_reason(Code.WAITS_FOR_CARDS, key=(NAMESPACE, name), uid=Uid(f"uid-{name}"), template=HALF) for name in "ab"
    ]
    index.observe_pod(pod("a"))
    assert index.newly_reported(reasons) == reasons[:1]
    assert index.newly_reported(reasons) == []
    index.forget_pod(pod("a"))
    index.observe_pod(pod("a"))
    assert index.newly_reported(reasons) == reasons[:1]


@pytest.mark.parametrize("given", [pod("p", node="n"), pod("p", phase="Succeeded")], ids=["bound", "ended"])
def test_a_pod_that_does_not_wait_keeps_the_template(index: TemplateIndex, given) -> None:
    index.observe_pod(given)
    found = view(index)
    assert (found.in_use, [each.is_waiting for each in found.pods]) == (True, [False])


def test_a_template_is_unused_when_its_last_pod_is_gone(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    index.observe_pod(pod("b"))
    decided(index)
    index.forget_pod(pod("a"))
    assert not index.dirty
    index.forget_pod(pod("b"))
    index.forget_pod(pod("b"))
    assert set(index.dirty) == {KEY}
    assert not view(index).in_use


def test_a_new_template_lets_all_pods_be_looked_at_and_a_changed_one_does_not(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    decided(index)
    index.observe_template(template())
    assert set(index.dirty) == {KEY}
    assert names(decided(index)) == ["a"]
    index.observe_template(template(version=2, unused_since="now"))
    assert set(index.dirty) == {KEY}
    assert names(view(index)) == []


def test_an_older_version_of_a_template_changes_nothing(index: TemplateIndex) -> None:
    index.observe_template(template(version=2))
    view(index)
    index.observe_template(template(version=1, unused_since="now"))
    assert not index.dirty


def test_templates_with_other_names_are_not_stored(index: TemplateIndex) -> None:
    foreign = template()
    index.observe_template(
        msgspec.structs.replace(foreign, metadata=msgspec.structs.replace(foreign.metadata, name="mine"))
    )
    assert not index.dirty
    assert not index._templates


def test_only_the_deletion_of_the_known_template_counts(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    index.observe_template(template())
    decided(index)
    before = template()
    before = msgspec.structs.replace(before, metadata=msgspec.structs.replace(before.metadata, uid=Uid("uid-before")))
    index.forget_template(before)
    assert not index.dirty
    index.forget_template(template())
    found = view(index)
    assert (found.template, names(found)) == (None, ["a"])


def test_a_pod_has_only_the_claims_that_were_generated_for_it(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", claims=True))
    (found,) = view(index, KEY, claim("p-0")).pods
    assert [each.metadata.name for each in found.claims] == ["p-0"]
    index.mark_all_dirty()
    (forged,) = view(index, KEY, claim("p-0", owner="other")).pods
    assert forged.claims == ()


def test_a_pod_is_looked_at_again_when_its_claim_comes_after_it(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", claims=True))
    decided(index)
    index.observe_claim(claim("p-0", owner="other"))
    assert not index.dirty
    index.observe_claim(claim("p-0"))
    assert list(index.dirty) == [KEY]
    (found,) = view(index, KEY, claim("p-0")).pods
    assert [each.metadata.name for each in found.claims] == ["p-0"]


def test_all_that_is_named_or_exists_is_decided_at_first(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", BYTES))
    index.observe_template(template())
    view(index)
    index.mark_all_dirty()
    assert set(index.dirty) == {KEY, (NAMESPACE, BYTES)}
