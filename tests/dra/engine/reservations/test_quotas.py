"""What Reservations hold beside their owner pods counts against the ResourceQuotas of their namespace."""

import msgspec
import pytest

from dra.engine.reservations.quota_scopes import PodTraits
from dra.engine.reservations.quotas import Charge, refusal
from dra.model.quotas import ResourceQuota
from tests.dra.engine.reservations.examples import of
from tests.violations import for_each_case


def quota(used="0", *, hard="10", name="requests.cpu", **spec):
    status = {"hard": {name: hard}, "used": {name: used}}
    return msgspec.convert(
        {"metadata": {"namespace": "ml", "name": "team"}, "spec": spec, "status": status}, ResourceQuota
    )


def refused(quotas, *, held, wanted, charge):
    """Return the refusal of pods that have no traits."""
    return refusal(quotas, held={PodTraits(): held}, wanted=wanted, traits=PodTraits(), charge=charge)


IS_HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
CLASSES = {"scopeSelector": {"matchExpressions": [IS_HIGH]}}
TEXT = (
    "exceeded quota team: Reservations of the namespace hold requests.cpu {} for pods to come, beside {} used, "
    "limited to 10"
)


@for_each_case(
    [
        pytest.param([quota("4")], of(6), of(4), "", id="as-much-as-the-quota"),
        pytest.param([quota("5")], of(6), of(4), TEXT.format(6, 5), id="more"),
        pytest.param([quota("9")], of(), of(9), "", id="nothing-held-is-the-business-of-the-api-server"),
        pytest.param([quota("5")], of(6), of(memory="1Gi"), "", id="of-another-resource"),
        pytest.param(
            [quota("5", name="cpu")], of(6), of(4), TEXT.replace("requests.cpu", "cpu").format(6, 5), id="short"
        ),
        pytest.param([quota("5", name="limits.cpu")], of(6), of(4), "", id="limits-of-pods-to-come-are-unknown"),
        pytest.param([quota("5", name="pods")], of(6), of(4), "", id="number-of-pods"),
        pytest.param([quota(), quota("5")], of(6), of(4), TEXT.format(6, 5), id="the-first-that-is-exceeded"),
        pytest.param(
            [quota("5", scopes=["NotTerminating"])], of(6), of(4), TEXT.format(6, 5), id="scope-of-placeholders"
        ),
        pytest.param([quota("5", scopes=["BestEffort"])], of(6), of(4), "", id="scope-of-other-pods"),
        pytest.param([quota("5", **CLASSES)], of(6), of(4), "", id="scope-of-priorities"),
        pytest.param([], of(6), of(4), "", id="no-quota"),
    ]
)
def test_a_placeholder_is_refused_beyond_a_quota(quotas, held, wanted, text):
    assert refused(quotas, held=held, wanted=wanted, charge=Charge.PLACEHOLDER) == text


@pytest.mark.parametrize(
    ("used", "held", "more", "text"),
    [
        pytest.param("0", of(6), of(4), "", id="as-much-as-the-quota"),
        pytest.param("0", of(6), of(5), TEXT.format(6, 5), id="more"),
        pytest.param("8", of(), of(3), TEXT.format(0, 11), id="beside-pods-alone"),
        pytest.param("9", of(6), {"cpu": -1}, "", id="a-decrease"),
    ],
)
def test_a_reservation_does_not_grow_beyond_a_quota(used, held, more, text):
    assert refused([quota(used)], held=held, wanted=more, charge=Charge.NOBODY) == text


@pytest.mark.parametrize(
    ("used", "held", "wanted", "text"),
    [
        pytest.param("10", of(), of(10), "", id="over-all-pods-of-the-quota"),
        pytest.param("2", of(), of(11), TEXT.format(0, 11), id="more-than-the-quota"),
        pytest.param("2", of(4), of(7), TEXT.format(4, 7), id="beside-others"),
    ],
)
def test_a_reservation_over_running_pods_is_charged_once(used, held, wanted, text):
    assert refused([quota(used)], held=held, wanted=wanted, charge=Charge.RUNNING_PODS) == text


HIGH, LOW, NONE, SHORT = PodTraits("high"), PodTraits("low"), PodTraits(), PodTraits(has_deadline=True)
SYSTEM = PodTraits("system-node-critical")


@for_each_case(
    [
        pytest.param(CLASSES, {HIGH: of(6)}, HIGH, Charge.PLACEHOLDER, (6, 5), id="both-of-a-class"),
        pytest.param(CLASSES, {HIGH: of(6)}, LOW, Charge.PLACEHOLDER, None, id="wanted-by-another-class"),
        pytest.param(CLASSES, {LOW: of(6), NONE: of(6)}, HIGH, Charge.PLACEHOLDER, None, id="held-by-other-classes"),
        pytest.param(CLASSES, {LOW: of(9), HIGH: of(6)}, HIGH, Charge.PLACEHOLDER, (6, 5), id="held-by-several"),
        pytest.param({}, {LOW: of(3), HIGH: of(3)}, NONE, Charge.PLACEHOLDER, (6, 5), id="without-scope-all-count"),
        pytest.param(
            {"scopes": ["Terminating"]}, {SHORT: of(2)}, SHORT, Charge.PLACEHOLDER, (2, 9), id="uncharged-placeholder"
        ),
        pytest.param(
            {"scopes": ["NotTerminating"]}, {NONE: of(9)}, SHORT, Charge.PLACEHOLDER, None, id="pods-with-a-deadline"
        ),
        pytest.param(
            {"scopes": ["PriorityClass"]}, {SYSTEM: of(2)}, SYSTEM, Charge.PLACEHOLDER, (2, 9), id="system-class"
        ),
        pytest.param(CLASSES, {HIGH: of(2)}, HIGH, Charge.NOBODY, (2, 9), id="that-grows"),
        pytest.param(CLASSES, {HIGH: of(6)}, HIGH, Charge.RUNNING_PODS, (6, 5), id="over-running-pods"),
    ]
)
def test_a_quota_with_scopes_counts_the_reservations_whose_pods_it_counts(spec, held, traits, charge, numbers):
    text = TEXT.format(*numbers) if numbers else ""
    assert refusal([quota("5", **spec)], held=held, wanted=of(4), traits=traits, charge=charge) == text
