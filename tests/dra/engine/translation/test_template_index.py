"""The index of templates: what is decided again after a change, and which pods a decision looks at."""

import msgspec
import pytest

from dra.engine.translation.template_index import TemplateIndex, TemplateView
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from tests.dra.engine.translation.cluster_objects import BYTES, HALF, NAMESPACE, claim, pod, template

KEY = (NAMESPACE, HALF)


@pytest.fixture
def index() -> TemplateIndex:
    return TemplateIndex()


def view(index: TemplateIndex, key: Key = KEY, *claims: ResourceClaim) -> TemplateView:
    known = {each.metadata.key: each for each in claims}
    index.dirty.clear()
    return index.view(key, claim=known.get, card_sizes=(), pods_known=True)


def names(found: TemplateView) -> list[str]:
    return [each.key[1] for each in found.pods]


def test_a_pod_makes_each_template_that_it_names_dirty(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", HALF, BYTES, HALF))
    assert index.dirty == {KEY, (NAMESPACE, BYTES)}
    assert (view(index).in_use, view(index, (NAMESPACE, BYTES)).in_use) == (True, True)


def test_pods_that_name_other_templates_take_no_place(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", "my-template", "koord-gpu-r150-s1"))
    assert not index.dirty
    assert not index._pods


def test_a_decision_looks_at_a_pod_once(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    assert names(view(index)) == ["a"]
    index.observe_pod(pod("b"))
    index.observe_pod(pod("a"))
    assert names(view(index)) == ["b"]
    index.observe_pod(pod("a", claims=True))
    assert names(view(index)) == ["a"]


@pytest.mark.parametrize("given", [pod("p", node="n"), pod("p", phase="Succeeded")], ids=["bound", "ended"])
def test_a_pod_that_does_not_wait_keeps_the_template(index: TemplateIndex, given) -> None:
    index.observe_pod(given)
    found = view(index)
    assert (found.in_use, [each.is_waiting for each in found.pods]) == (True, [False])


def test_a_template_is_unused_when_its_last_pod_is_gone(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    index.observe_pod(pod("b"))
    view(index)
    index.forget_pod(Uid("uid-a"))
    assert not index.dirty
    index.forget_pod(Uid("uid-b"))
    index.forget_pod(Uid("uid-b"))
    assert index.dirty == {KEY}
    assert not view(index).in_use
    assert not index.has_pod(Uid("uid-b"))


def test_a_new_template_lets_all_pods_be_looked_at_and_a_changed_one_does_not(index: TemplateIndex) -> None:
    index.observe_pod(pod("a"))
    view(index)
    index.observe_template(template())
    assert index.dirty == {KEY}
    assert names(view(index)) == ["a"]
    index.observe_template(template(version=2, unused_since="now"))
    assert index.dirty == {KEY}
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
    view(index)
    index.forget_template(KEY, Uid("uid-of-the-one-before"))
    assert not index.dirty
    index.forget_template(KEY, Uid(f"uid-{HALF}"))
    found = view(index)
    assert (found.template, names(found)) == (None, ["a"])


def test_a_pod_has_only_the_claims_that_were_generated_for_it(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", claims=True))
    (found,) = view(index, KEY, claim("p-0")).pods
    assert [each.metadata.name for each in found.claims] == ["p-0"]
    index.mark_all_dirty()
    (forged,) = view(index, KEY, claim("p-0", owner="other")).pods
    assert forged.claims == ()


def test_all_that_is_named_or_exists_is_decided_at_first(index: TemplateIndex) -> None:
    index.observe_pod(pod("p", BYTES))
    index.observe_template(template())
    view(index)
    index.mark_all_dirty()
    assert index.dirty == {KEY, (NAMESPACE, BYTES)}
