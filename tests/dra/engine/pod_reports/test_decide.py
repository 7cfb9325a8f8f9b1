"""Which reports of a pod are written, given those that it has and those that were written last."""

import pytest

from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.decide import AwaitCards, PodReportPlan, PodReportView, WriteReports, decide, reports
from tests.dra.engine.pod_reports.objects import allocated_claim, bound_pod
from tests.dra.engine.pod_reports.slices import SMALL, gpu, resource_slice

CARDS = CardIndex()
CARDS.observe(resource_slice("n0", gpu(0, SMALL)))
CLAIM = allocated_claim()
REPORTS = reports(bound_pod("p", "c"), [CLAIM], CARDS)
OTHER = dict.fromkeys(REPORTS, "{}")


def view(*, claims=(CLAIM,), cards=CARDS, written=None, **pod):
    return PodReportView(pod=bound_pod("p", "c", **pod), claims=claims, cards=cards, written=written or {})


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({}, id="missing"),
        pytest.param({"annotations": OTHER}, id="not-true"),
        pytest.param({"annotations": OTHER, "written": REPORTS}, id="changed-by-somebody-else"),
        pytest.param({"written": OTHER}, id="no-longer-true"),
    ],
)
def test_reports_are_written(parts):
    write = WriteReports(pod=("ml", "p"), uid="uid-p", annotations=REPORTS)
    assert decide(view(**parts)) == PodReportPlan(actions=(write,))


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"annotations": {**REPORTS, "other": "x"}}, id="right"),
        pytest.param({"written": REPORTS}, id="right-but-not-kept-in-memory"),
        pytest.param({"claims": (), "annotations": OTHER}, id="without-a-claim-behind-it"),
        pytest.param({"node": ""}, id="pod-not-bound"),
    ],
)
def test_nothing_is_written(parts):
    assert decide(view(**parts)) == PodReportPlan()


def test_a_pod_waits_for_the_slice_of_its_gpu():
    (action,) = decide(view(cards=CardIndex())).actions
    assert isinstance(action, AwaitCards)
    assert (action.pod, "gpu-0" in action.error) == (("ml", "p"), True)
