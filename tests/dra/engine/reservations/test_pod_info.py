import json

import msgspec
import pytest

from dra.api.reservations import well_known
from dra.api.reservations.well_known import MalformedAnnotationError, decode_annotation
from dra.engine.reservations import pod_info, reservation_info
from dra.engine.reservations.pod_info import PodInfo, ReservationAffinity, allocated_reservation_uid
from dra.model.meta import ObjectMeta
from dra.model.scheduling import SchedulerPod, Toleration
from tests.dra.engine.reservations.examples import reservation
from tests.violations import for_each_case


def read(annotation="", content=None, *, labels=None):
    text = content if isinstance(content, str) else json.dumps(content)
    meta = ObjectMeta(name="p", namespace="ns", annotations={annotation: text} if annotation else None, labels=labels)
    return PodInfo.from_pod(SchedulerPod(metadata=meta))


def test_a_pod_that_says_nothing_welcomes_reservations_and_requires_none():
    info = read()
    assert (info.affinity, info.exact_match_resources, info.ignores_reservations, info.allocated_reservation) == (
        None,
        (),
        False,
        "",
    )


def test_an_empty_affinity_requires_a_reservation():
    assert read(well_known.ANNOTATION_RESERVATION_AFFINITY, {}).affinity == ReservationAffinity()


def test_one_whole_number_may_be_compared_with():
    for operator, number in (("Gt", "7"), ("Lt", "-7")):
        assert (
            read(well_known.ANNOTATION_RESERVATION_AFFINITY, required(operator=operator, values=[number])).affinity
            is not None
        )
    with pytest.raises(MalformedAnnotationError, match="Gt and Lt need one whole number"):
        read(well_known.ANNOTATION_RESERVATION_AFFINITY, required(operator="Gt", values=["7", "8"]))


def test_an_affinity_is_read_whole():
    given = {
        "name": "r",
        "reservationSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "reservationSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["1"]}]}]
        },
    }
    found = read(well_known.ANNOTATION_RESERVATION_AFFINITY, given).affinity
    assert (found.name, found.selector) == ("r", {"a": "b"})
    assert found.tolerations == (Toleration(key="k", operator="Exists"),)
    assert found.terms.node_selector_terms[0].match_expressions[0].values == ["1"]


def test_other_words_of_a_pod():
    assert read(well_known.ANNOTATION_EXACT_MATCH, {"resourceNames": ["cpu"]}).exact_match_resources == ("cpu",)
    assert read(well_known.ANNOTATION_RESERVATION_ALLOCATED, {"name": "r", "uid": "u"}).allocated_reservation == "u"
    assert read(labels={well_known.LABEL_RESERVATION_IGNORED: "true"}).ignores_reservations
    assert read(labels={well_known.LABEL_DISABLE_PREEMPTIBLE: "true"}).is_protected


def test_who_writes_nonsense_about_where_it_is_is_nowhere():
    assert read(well_known.ANNOTATION_RESERVATION_ALLOCATED, "{").allocated_reservation == ""


def required(key="z", operator="In", values=("1",), kind="matchExpressions"):
    term = {kind: [{"key": key, "operator": operator, "values": list(values)}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": [term]}}


@for_each_case(
    [
        pytest.param(well_known.ANNOTATION_RESERVATION_AFFINITY, "{", "is not valid JSON", id="no-json"),
        pytest.param(well_known.ANNOTATION_RESERVATION_AFFINITY, [], "Expected `object`, got `array`", id="a-list"),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY, {"nam": "r"}, "Object contains unknown field `nam`", id="typo"
        ),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            {"name": 1},
            "Expected `str`, got `int` - at `$.name`",
            id="type",
        ),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            required(operator="Is"),
            "operator: 'Is' is none of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            id="operator",
        ),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            required(values=()),
            "values: In and NotIn need values",
            id="no-values",
        ),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            required(operator="Exists"),
            "values: Exists and DoesNotExist take",
            id="exists",
        ),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            required(operator="Gt", values=["x"]),
            "values: Gt and Lt need one whole",
            id="gt",
        ),
        pytest.param(well_known.ANNOTATION_RESERVATION_AFFINITY, required(key=""), "key: is missing", id="no-key"),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            required(kind="matchFields"),
            "matchFields[0]: key: 'z' is not a selectable field",
            id="no-such-field",
        ),
        pytest.param(
            well_known.ANNOTATION_EXACT_MATCH,
            {"resourceNames": "cpu"},
            "Expected `array | null`, got `str`",
            id="exact",
        ),
        pytest.param(
            well_known.ANNOTATION_RESERVATION_AFFINITY,
            '{"reservationSelector":' + "[" * 100_000,
            "Expected `object",
            id="brackets",
        ),
        pytest.param(
            well_known.ANNOTATION_EXACT_MATCH, {"names": []}, "Object contains unknown field `names`", id="exact-typo"
        ),
    ]
)
def test_an_annotation_that_cannot_be_read_is_named_with_its_field(annotation, content, complaint):
    with pytest.raises(MalformedAnnotationError) as refused:
        read(annotation, content)
    assert str(refused.value).startswith(f"annotation {annotation}: ")
    assert complaint in str(refused.value)


def test_an_annotation_that_is_nested_too_deeply_is_refused_and_lets_nobody_in():
    deep = '{"uid":"r","x":' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(MalformedAnnotationError, match="is nested too deeply"):
        decode_annotation(well_known.ANNOTATION_RESERVATION_ALLOCATED, deep, dict[str, object])
    meta = ObjectMeta(annotations={well_known.ANNOTATION_RESERVATION_ALLOCATED: deep})
    assert allocated_reservation_uid(meta) == ""


@pytest.mark.parametrize(
    ("entries", "claims"),
    [
        pytest.param(
            [{"name": "a", "resourceClaimTemplateName": "t"}], {("resourceClaimTemplateName", "t")}, id="template"
        ),
        pytest.param([{"name": "a", "resourceClaimName": "c"}], {("resourceClaimName", "c")}, id="name"),
        pytest.param([{"name": "a"}], set(), id="neither"),
        pytest.param([], set(), id="none"),
    ],
)
def test_the_claims_of_a_pod_and_of_a_template_are_comparable(entries, claims):
    spec = {"containers": [], "resourceClaims": entries}
    pod = msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}, SchedulerPod)
    expected = {("ns", *each) for each in claims}
    assert PodInfo.from_pod(pod).claims == expected
    held = reservation(template={"metadata": {"namespace": "ns"}, "spec": spec})
    assert reservation_info.from_reservation(held).claims == expected


@pytest.mark.parametrize("entries", [None, "gpu", ["gpu"], [{"resourceClaimName": 7}], {"resourceClaimName": "c"}])
def test_claims_of_a_template_that_no_pod_could_have_are_ignored(entries):
    assert pod_info.template_claims({"spec": {"resourceClaims": entries}}, "ns") == set()
