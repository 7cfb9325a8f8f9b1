"""Whether a GPU computes, as its own node reports it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from dra.engine.colocation import watched
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.device_usage.gpu_activity import REPORT_VALID, GpuActivity
from dra.engine.instants import Moment
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.slices import ResourceSliceTaints

MADE = "2026-11-20T12:00:00Z"
WALL = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
GPU = DeviceRequestAllocationResult(driver="gpu.example.com", pool="n1", device="gpu-0")


def slice_on(node="n1", *, uuid="GPU-1", name=""):
    content = {
        "metadata": {"name": name or f"{node}-gpus"},
        "spec": {
            "driver": GPU.driver,
            "nodeName": node,
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": uuid}, "index": {"int": 0}}}],
        },
    }
    return msgspec.convert(content, ResourceSliceTaints)


def report_of(core, *, node="n1", uuid="GPU-1", made=MADE):
    device = {"type": "gpu", "id": uuid, "resources": {} if core is None else {"koordinator.sh/gpu-core": core}}
    status = {"updateTime": made, "nodeMetric": {"nodeUsage": {"resources": {}, "devices": [device]}}}
    metric = msgspec.convert({"metadata": {"name": node}, "status": status}, WatchedNodeMetric)
    watched.trim_metric(metric)
    return metric


def activity(found, *reports):
    known = GpuActivity()
    known.observe_slice(found)
    for report in reports:
        known.observe_metric(report, now=0.0)
    return known


@pytest.mark.parametrize(
    ("core", "active"),
    [
        pytest.param("37", True, id="computes"),
        pytest.param("0", False, id="computes-nothing"),
        pytest.param(None, None, id="not-reported"),
        pytest.param("lots", None, id="no-quantity"),
        pytest.param("-1", None, id="negative"),
        pytest.param(["0"], None, id="no-text"),
    ],
)
def test_a_gpu_computes_as_its_report_says(core, active):
    assert activity(slice_on(), report_of(core)).is_active(GPU, now=Moment(1.0, WALL)) is active


@pytest.mark.parametrize(
    ("known", "now"),
    [
        pytest.param(activity(slice_on()), Moment(1.0, WALL), id="without-a-report"),
        pytest.param(activity(slice_on(uuid="")), Moment(1.0, WALL), id="without-a-uuid"),
        pytest.param(activity(slice_on("n2"), report_of("0")), Moment(1.0, WALL), id="another-node-says-so"),
        pytest.param(
            activity(slice_on(), report_of("0")), Moment(1.0, WALL + REPORT_VALID + 1), id="long-ago-by-the-report"
        ),
        pytest.param(
            activity(slice_on(), report_of("0", made="2027-11-20T12:00:00Z")),
            Moment(REPORT_VALID + 1, WALL),
            id="long-ago-by-our-clock",
        ),
        pytest.param(activity(slice_on(), report_of("0", made="now")), Moment(1.0, WALL), id="at-no-time"),
    ],
)
def test_what_is_not_known_is_not_idle(known, now):
    assert known.is_active(GPU, now=now) is None


def test_what_is_gone_is_not_known():
    for forget in (
        lambda known: known.forget_metric(report_of("0")),
        lambda known: known.observe_metric(report_of(None), now=1.0),
        lambda known: known.forget_slice(slice_on()),
        lambda known: known.observe_slice(slice_on(uuid="")),
    ):
        known = activity(slice_on(), report_of("0"))
        forget(known)
        assert known.is_active(GPU, now=Moment(1.0, WALL)) is None


def test_a_gpu_stays_known_while_its_driver_replaces_slices():
    known = activity(slice_on(name="old"), report_of("0"))
    known.observe_slice(slice_on(name="new"))
    known.observe_slice(slice_on(name="old"))  # seen again, as after a watch began anew
    known.forget_slice(slice_on(name="old"))
    assert known.is_active(GPU, now=Moment(1.0, WALL)) is False
    known.forget_slice(slice_on(name="new"))
    assert known.is_active(GPU, now=Moment(1.0, WALL)) is None
