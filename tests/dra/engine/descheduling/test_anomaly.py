import pytest

from dra.engine.descheduling.anomaly import mark_reports


@pytest.mark.parametrize(
    ("rounds", "counts"),
    [
        pytest.param(["1", "2", "3"], [1, 2, 3], id="each-report-counts"),
        pytest.param(["1", "1", "1"], [1, 1, 1], id="a-report-counts-once"),
        pytest.param(["1", "2", "", "3"], [1, 2, 0, 1], id="a-round-below-the-thresholds-ends-the-count"),
    ],
)
def test_reports_in_a_row(rounds, counts):
    marks, seen = {}, []
    for update_time in rounds:
        mark_reports(marks, {"n1": update_time} if update_time else {})
        seen.append(marks["n1"].count if "n1" in marks else 0)
    assert seen == counts


def test_nothing_is_remembered_of_a_node_that_is_gone():
    marks = {}
    mark_reports(marks, {"gone": "1", "n1": "1"})
    mark_reports(marks, {"n1": "2"})
    assert marks.keys() == {"n1"}
