import pytest

from dra.engine.migration.conditions import Ending, ending
from tests.dra.engine.migration.examples import NOW, job


def with_reason(reason, **given):
    made = job("a", **given)
    return made.model_copy(update={"status": made.status.model_copy(update={"reason": reason})})


RUNNING = job("a", phase="Running")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(RUNNING, job("a", phase="Succeeded"), Ending(phase="Succeeded", seconds=7.0), id="succeeded"),
        pytest.param(
            RUNNING, with_reason("Timeout", phase="Failed"), Ending(phase="Failed", reason="Timeout"), id="failed"
        ),
        pytest.param(RUNNING, RUNNING, None, id="goes-on"),
        pytest.param(RUNNING, None, None, id="gone"),
        pytest.param(job("a", phase="Failed"), job("a", phase="Failed"), None, id="had-ended-before"),
    ],
)
def test_an_end_is_counted_once(before, after, expected):
    assert ending(before, after, now=NOW + 7.0) == expected
