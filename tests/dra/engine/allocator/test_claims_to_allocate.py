"""What cannot be asked for is said before any search."""

import pytest

from dra.engine.allocator import UnsatisfiableError, claim_to_allocate
from tests.dra.engine.allocator.strategies import CLASSES, claim, exactly
from tests.violations import for_each_case


def selecting(expression):
    return exactly(selectors=[{"cel": {"expression": expression}}])


@for_each_case(
    [
        pytest.param(exactly(cls="none"), "request r: device class none does not exist", id="class"),
        pytest.param(exactly(count=33), "claim c: 33 devices are more than the 32", id="too-many"),
        pytest.param(exactly(allocationMode="Some"), "request r: unsupported allocation mode Some", id="mode"),
        pytest.param(
            exactly(derivedAttributes=[{"name": "numa", "expression": "1"}]),
            "request r: derivedAttributes (feature gate DRADerivedAttributes) are not supported",
            id="derived-attributes",
        ),
        pytest.param({"name": "r", "atMost": {}}, "request r: has neither exactly nor firstAvailable", id="new"),
        pytest.param(
            selecting("device."),
            "request r: 'device.' is not a valid CEL expression",
            id="cel",
        ),
        pytest.param(
            selecting("'a'"),
            "request r: \"'a'\" evaluates to STRING, not to a bool",
            id="no-question",
        ),
    ]
)
def test_a_request_is_refused(request_, text):
    with pytest.raises(UnsatisfiableError) as refused:
        claim_to_allocate(claim(request_), CLASSES)
    assert str(refused.value).startswith(text)
