"""Decisions about one template: made while a pod names it, kept an hour longer, made anew for new card sizes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.claims.codes import Code
from dra.engine.instants import NEVER, Moment
from dra.engine.translation.template_index import TemplateIndex
from dra.engine.translation.template_plan import (
    KEPT_UNUSED,
    RECHECK,
    CreateTemplate,
    DeleteClaim,
    DeleteTemplate,
    MarkTemplate,
    TemplatePlan,
    creation_failed_reasons,
    decide,
    form,
)
from tests.dra.engine.translation.cluster_objects import BYTES, GIBI, HALF, NAMESPACE, claim, pod, template

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SMALL, LARGE = 16 * GIBI, 80 * GIBI
TEN = tuple(size * GIBI for size in range(10, 110, 10))


def index_of(*objects: Any) -> TemplateIndex:
    index = TemplateIndex()
    for each in objects:
        match type(each).__name__:
            case "Pod":
                index.observe_pod(each)
            case "ResourceClaimTemplate":
                index.observe_template(each)
    return index


def plan(
    *objects: Any,
    name: str = HALF,
    sizes: tuple[int, ...] = (SMALL,),
    replace: bool = True,
    known: bool = True,
    now: datetime = NOON,
) -> TemplatePlan:
    claims = {each.metadata.key: each for each in objects if type(each).__name__ == "ResourceClaim"}
    view = index_of(*objects).view((NAMESPACE, name), claims=claims, pods_known=known)
    return decide(msgspec.structs.replace(view, card_sizes=sizes), now=moment(now), generates_claims=replace)


def moment(wall: datetime, instant: float = 0.0) -> Moment:
    return Moment(instant=instant, wall=wall.timestamp())


def codes(found: TemplatePlan) -> list[Code]:
    return [each.code for each in found.reasons]


def unused(since: datetime) -> Any:
    return template(unused_since=since.isoformat())


def test_a_template_that_a_pod_names_is_made() -> None:
    (action,) = plan(pod(), sizes=(SMALL, LARGE)).actions
    assert isinstance(action, CreateTemplate)
    assert action.key == (NAMESPACE, HALF)
    (request,) = action.manifest["spec"]["spec"]["devices"]["requests"]
    assert [each["name"] for each in request["firstAvailable"]] == ["m16384", "m81920"]


def test_a_changed_default_policy_makes_templates_anew() -> None:
    name = "koord-cpu-4-default-lsr"
    found = []
    for default_policy in CpuBindPolicy:
        index = TemplateIndex(default_policy=default_policy)
        index.observe_pod(pod("p", name))
        index.observe_template(template(name, form=form(name)))
        view = index.view((NAMESPACE, name), claims={}, pods_known=True)
        found.append([type(each) for each in decide(view, now=moment(NOON), generates_claims=True).actions])
    assert found == [[], [DeleteTemplate]]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="nobody-names-it"),
        pytest.param([pod(), template()], id="it-exists"),
        pytest.param([template(deleting=True)], id="it-is-being-deleted"),
        pytest.param([pod(), template(labels=None)], id="foreign-and-named"),
        pytest.param([template(labels={"reserve.dra/made-from": "other"})], id="foreign-and-not-named"),
    ],
)
def test_nothing_is_written(objects: list[Any]) -> None:
    assert plan(*objects).actions == ()


def test_a_name_of_no_request_is_nobodys_business() -> None:
    assert plan(name="koord-gpu-r150-s1") == TemplatePlan()


def test_a_ratio_waits_for_cards_and_bytes_do_not() -> None:
    found = plan(pod(), sizes=())
    assert (found.actions, codes(found)) == ((), [Code.WAITS_FOR_CARDS])
    assert [type(each) for each in plan(pod("p", BYTES), name=BYTES, sizes=()).actions] == [CreateTemplate]


def test_pods_are_told_about_a_foreign_template() -> None:
    assert codes(plan(pod("a"), pod("b", node="n"), template(labels=None))) == [Code.FOREIGN_TEMPLATE] * 2


def test_pods_are_told_why_a_template_was_not_made() -> None:
    view = index_of(pod()).view((NAMESPACE, HALF), claims={}, pods_known=True)
    (reason,) = creation_failed_reasons(view, "exceeded quota")
    assert (reason.code, "exceeded quota" in reason.note) == (Code.TEMPLATE_FAILED, True)


@pytest.mark.parametrize(
    ("objects", "sizes", "due", "action"),
    [
        pytest.param([pod()], (SMALL,), {"created_from": 10.0}, CreateTemplate, id="its-creation-was-refused"),
        pytest.param(
            [pod(), template(HALF, SMALL)],
            (SMALL, LARGE),
            {"deleted_from": 10.0},
            DeleteTemplate,
            id="it-was-just-remade",
        ),
    ],
)
def test_a_write_that_is_not_due_waits(objects: list[Any], sizes: Any, due: dict[str, float], action: type) -> None:
    view = index_of(*objects).view((NAMESPACE, HALF), claims={}, pods_known=True)
    view = msgspec.structs.replace(view, card_sizes=sizes, **due)
    assert decide(view, now=moment(NOON, 9.0), generates_claims=True) == TemplatePlan(wake_at=10.0)
    assert [type(each) for each in decide(view, now=moment(NOON, 10.0), generates_claims=True).actions] == [action]


def test_an_unused_template_is_marked_and_kept_for_an_hour() -> None:
    (mark,) = plan(template()).actions
    assert isinstance(mark, MarkTemplate)
    assert mark.unused_since == NOON
    assert plan(unused(NOON), now=NOON + KEPT_UNUSED / 2) == TemplatePlan(wake_at_wall=(NOON + KEPT_UNUSED).timestamp())
    (deletion,) = plan(unused(NOON), now=NOON + KEPT_UNUSED).actions
    assert isinstance(deletion, DeleteTemplate)
    assert (deletion.uid, deletion.resource_version) == (f"uid-{HALF}", "1")


@pytest.mark.parametrize("given", ["", "yesterday", "2026-11-20T12:00:00", "2026-11-20T12:00:01Z"])
def test_a_time_that_cannot_be_right_is_written_anew(given: str) -> None:
    (mark,) = plan(template(unused_since=given)).actions
    assert isinstance(mark, MarkTemplate)
    assert mark.unused_since == NOON


def test_a_template_that_is_named_again_is_kept() -> None:
    found = plan(pod(), unused(NOON - timedelta(days=1)))
    (mark,) = found.actions
    assert isinstance(mark, MarkTemplate)
    assert (mark.unused_since, found.wake_at_wall) == (None, NEVER)


def test_no_template_is_deleted_while_pods_are_not_known() -> None:
    assert plan(unused(NOON - KEPT_UNUSED), known=False) == TemplatePlan(wake_at_wall=(NOON + RECHECK).timestamp())


@pytest.mark.parametrize("users", [[pod()], [pod("p", node="n")], []], ids=["waiting", "bound", "nobody"])
def test_a_template_that_lacks_a_card_size_is_deleted(users: list[Any]) -> None:
    found = plan(*users, template(HALF, SMALL), sizes=(SMALL, LARGE))
    assert [type(each) for each in found.actions] == [DeleteTemplate]


def test_a_template_that_another_version_made_otherwise_is_deleted() -> None:
    found = plan(pod(), template(form="another"))
    assert [type(each) for each in found.actions] == [DeleteTemplate]
    (creation,) = plan(pod()).actions
    assert isinstance(creation, CreateTemplate)
    ours = creation.manifest["metadata"]["annotations"]["reserve.dra/form"]
    assert plan(pod(), template(form=ours)).actions == ()
    assert form(HALF) != form(BYTES)


@pytest.mark.parametrize(
    ("made", "name", "sizes"),
    [
        pytest.param(template(HALF, SMALL, LARGE), HALF, (SMALL,), id="a-size-is-gone"),
        pytest.param(template(HALF, SMALL, LARGE), HALF, (), id="all-sizes-are-gone"),
        pytest.param(template(HALF, SMALL, LARGE), HALF, (LARGE, SMALL), id="another-size-has-most-cards"),
        pytest.param(template(HALF, *TEN), HALF, TEN, id="more-than-eight"),
        pytest.param(template(BYTES), BYTES, (SMALL, LARGE), id="bytes"),
        pytest.param(template("koord-cpu-2-full-lsr"), "koord-cpu-2-full-lsr", (SMALL, LARGE), id="cpus"),
    ],
)
def test_a_template_that_lacks_nothing_is_kept(made: Any, name: str, sizes: tuple[int, ...]) -> None:
    assert plan(pod("p", name), made, name=name, sizes=sizes).actions == ()


def test_pods_are_told_which_sizes_are_left_out() -> None:
    found = plan(pod(), template(HALF, *TEN), sizes=TEN)
    assert codes(found) == [Code.CARD_SIZES_EXCEEDED]
    assert "cannot use cards of 90Gi, 100Gi: a claim has room for 8 sizes" in found.reasons[0].note
    assert codes(plan(pod(), template(HALF, *TEN[:8]), sizes=TEN[:8])) == []


def test_pods_are_told_as_their_template_is_created_since_they_may_be_bound_a_moment_later() -> None:
    assert codes(plan(pod(), sizes=TEN)) == [Code.CARD_SIZES_EXCEEDED]
    assert codes(plan(pod(), sizes=TEN[:8])) == []


def test_an_unallocated_claim_of_a_waiting_pod_is_renewed_in_mode_replace() -> None:
    objects = (pod("p", claims=True), template(HALF, SMALL, LARGE), claim("p-0", SMALL))
    found = plan(*objects, sizes=(SMALL, LARGE))
    (action,) = found.actions
    assert isinstance(action, DeleteClaim)
    assert (action.key, action.reason.code, found.reasons) == ((NAMESPACE, "p-0"), Code.CLAIM_RENEWED, ())
    assert action.reason.text == (
        "pod ml/p: gets another claim in place of p-0, which was made before the cluster had cards of 80Gi"
    )


def test_in_mode_alongside_the_pod_is_told() -> None:
    objects = (pod("p", claims=True), template(HALF, SMALL, LARGE), claim("p-0", SMALL))
    found = plan(*objects, sizes=(SMALL, LARGE), replace=False)
    assert (found.actions, codes(found)) == ((), [Code.CLAIM_LACKS_CARD_SIZES])


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([pod("p", claims=True), claim("p-0", SMALL, allocated=True)], id="allocated"),
        pytest.param([pod("p", claims=True), claim("p-0", SMALL, LARGE)], id="complete"),
        pytest.param([pod("p", claims=True, node="n"), claim("p-0", SMALL)], id="of-a-bound-pod"),
        pytest.param([pod("p", claims=True)], id="not-seen"),
        pytest.param([pod("p"), claim("p-0", SMALL)], id="not-recorded"),
    ],
)
def test_other_claims_stay(objects: list[Any]) -> None:
    for replace in (True, False):
        found = plan(*objects, template(HALF, SMALL, LARGE), sizes=(SMALL, LARGE), replace=replace)
        assert (found.actions, found.reasons) == ((), ())
