"""The comparison of two answers of /metrics can fail, and says what the newer one lacks."""

from __future__ import annotations

import pytest

from tests.older_build.exposition import lost_series

OLD = """
# HELP writes_total Writes, by kind
# TYPE writes_total counter
writes_total{kind="a \\"quoted\\" one",code="200"} 1.0
# TYPE leading gauge
leading 1.0
"""


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        pytest.param(OLD, [], id="the-same"),
        pytest.param(OLD + '# TYPE more gauge\nmore{a="b"} 1\n', [], id="one-more"),
        pytest.param(OLD.replace("leading", "leads"), ["leading is gone, and was gauge"], id="another-name"),
        pytest.param(OLD.replace("gauge", "counter"), ["leading is counter, and was gauge"], id="another-type"),
        pytest.param(OLD.replace(",code=", ",status="), ["writes_total has no label code"], id="label-gone"),
        pytest.param(
            OLD.replace('writes_total{kind="a \\"quoted\\" one",code="200"} 1.0\n', ""), [], id="no-sample-yet"
        ),
    ],
)
def test_what_is_lost_of_metrics(new, lost):
    assert lost_series(OLD, new) == lost
