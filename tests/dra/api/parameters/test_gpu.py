"""GpuConfig says what it means, or is refused with the path of the field."""

import pytest

from dra.api.parameters.gpu import GpuConfig, TimeSliceInterval
from dra.api.parameters.opaque import MalformedParametersError, decode_parameters
from tests.violations import for_each_case


def gpu_config(**fields):
    return {"apiVersion": "reserve.dra/v1alpha1", "kind": "GpuConfig"} | fields


def sharing(**fields):
    return gpu_config(sharing=fields)


def test_nothing_said_means_the_defaults():
    config = decode_parameters(gpu_config(), GpuConfig)
    assert config.sharing.time_slicing_config.interval is TimeSliceInterval.DEFAULT
    assert config.sharing.memory is None


@pytest.mark.parametrize("interval", list(TimeSliceInterval))
def test_every_interval_can_be_asked_for(interval):
    config = decode_parameters(
        sharing(strategy="TimeSlicing", timeSlicingConfig={"interval": interval.value}), GpuConfig
    )
    assert config.sharing.time_slicing_config.interval is interval


@pytest.mark.parametrize(("written", "read"), [("10Gi", "10Gi"), (4096, "4096"), ("500M", "500M")])
def test_a_memory_limit_is_read_when_advice_is_enough(written, read):
    config = decode_parameters(sharing(memory={"limit": written, "enforcement": "Advisory"}), GpuConfig)
    assert config.sharing.memory.limit == read


@for_each_case(
    [
        pytest.param({}, "apiVersion: must be reserve.dra/v1alpha1, not nothing", id="no-version"),
        pytest.param(
            {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"},
            "apiVersion: must be reserve.dra/v1alpha1, not 'resource.nvidia.com/v1beta1'",
            id="NVIDIAs",
        ),
        pytest.param(
            {"apiVersion": "reserve.dra/v1alpha1", "kind": "CpuConfig"},
            "kind: must be GpuConfig, not 'CpuConfig'",
            id="of-another-driver",
        ),
        pytest.param(gpu_config(sharin={}), "GpuConfig.sharin: unknown field; did you mean sharing?", id="typo"),
        pytest.param(
            sharing(stratgy="TimeSlicing"),
            "GpuConfig.sharing.stratgy: unknown field; did you mean strategy?",
            id="typo-within",
        ),
        pytest.param(
            sharing(time_slicing_config={}),
            "GpuConfig.sharing.time_slicing_config: unknown field; did you mean timeSlicingConfig?",
            id="a-name-of-Python",
        ),
        pytest.param(
            sharing(timeSlicingConfig={"interval": "Forever"}),
            "GpuConfig.sharing.timeSlicingConfig.interval: input should be 'Default', 'Short', 'Medium' or 'Long', "
            "not 'Forever'",
            id="interval",
        ),
        pytest.param(
            sharing(strategy="MPS"),
            "GpuConfig.sharing.strategy: this driver does not support MPS, which needs a control daemon for each "
            "claim; use TimeSlicing, or NVIDIA's driver for this claim",
            id="mps",
        ),
        pytest.param(
            sharing(memory={"limit": "10Gi"}),
            "GpuConfig.sharing.memory.enforcement: nothing enforces a memory limit without MPS; write Advisory to "
            "pass the limit to the containers only, or remove the limit",
            id="a-limit-that-would-not-limit",
        ),
        pytest.param(
            sharing(memory={"limit": "0", "enforcement": "Advisory"}),
            "GpuConfig.sharing.memory.limit: string should match pattern "
            "'^0*[1-9][0-9]*(Ki|Mi|Gi|Ti|k|M|G|T)?$', not '0'",
            id="no-memory-at-all",
        ),
        pytest.param(
            gpu_config(sharing=3),
            "GpuConfig.sharing: input should be a valid dictionary or instance of GpuSharing, not 3",
            id="no-object",
        ),
        pytest.param(
            sharing(strategy="X", memory={"enforcement": "Advisory"}),
            "GpuConfig.sharing.strategy: input should be 'TimeSlicing', not 'X'; "
            "GpuConfig.sharing.memory.limit: required",
            id="all-errors-at-once",
        ),
    ]
)
def test_what_is_refused_is_named(parameters, text):
    with pytest.raises(MalformedParametersError) as caught:
        decode_parameters(parameters, GpuConfig)
    assert str(caught.value) == text
