"""Which reports of a driver count as refusals."""

import msgspec
import pytest

from dra.engine.prepare_refusals.reasons import PrepareRefusalReason, refusal_reason
from dra.model.claims import ResourceClaim
from tests.dra.engine.prepare_refusals.refused import claim_document, ready


def reason_of(*devices, **fields):
    return refusal_reason(msgspec.convert(claim_document(*devices, **fields), ResourceClaim))


@pytest.mark.parametrize("reason", list(PrepareRefusalReason))
def test_the_driver_says_why(reason):
    assert reason_of(ready(reason=reason)) is reason


@pytest.mark.parametrize(
    ("devices", "fields"),
    [
        pytest.param([ready("True")], {}, id="is-ready"),
        pytest.param([ready("Unknown")], {}, id="not-known"),
        pytest.param([ready(reason="NoLink")], {}, id="another-reason"),
        pytest.param([ready(driver="net.example.com")], {}, id="another-driver"),
        pytest.param([{"driver": "cpu.reserve.dra", "pool": "n1", "device": "cpus"}], {}, id="no-condition"),
        pytest.param([ready()], {"allocated": False}, id="not-allocated"),
    ],
)
def test_all_else_is_no_refusal(devices, fields):
    assert reason_of(*devices, **fields) is None


def test_one_refused_device_of_several_is_enough():
    assert reason_of(ready("True"), ready()) is PrepareRefusalReason.CPUS_IN_USE
