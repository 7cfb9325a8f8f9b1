"""The annotations that a pod is to have."""

import json

import msgspec
import pytest

from dra.engine.pod_reports.cards import CardIndex
from dra.engine.pod_reports.decide import is_reported, reports
from dra.model.claims import ResourceClaim
from dra.model.pods import Pod
from tests.dra.engine.pod_reports.slices import SMALL, gpu, resource_slice

CARDS = CardIndex()
CARDS.observe(resource_slice("n0", gpu(0, SMALL)))
DEVICES, CPUS = (f"scheduling.koordinator.sh/{each}" for each in ("device-allocated", "resource-status"))


def pod(uid="uid-p", *named):
    entries = [{"name": each, "resourceClaimName": each} for each in named]
    return msgspec.convert({"metadata": {"name": "p", "uid": uid}, "spec": {"resourceClaims": entries}}, Pod)


def claim(*results, cpuset=None, allocated=True, owner=""):
    status = {"allocation": {"devices": {"results": list(results)}}} if allocated else {}
    if cpuset is not None:
        device = {"driver": "cpu.reserve.dra", "pool": "n0", "device": "cpus", "data": {"cpuset": cpuset}}
        status["devices"] = [device]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
    metadata = {"name": "c", **({"ownerReferences": [reference]} if owner else {})}
    return msgspec.convert({"metadata": metadata, "status": status}, ResourceClaim)


def half():
    consumed = {"memory": "8Gi", "core": "50"}
    return {
        "request": "gpu",
        "driver": "gpu.reserve.dra",
        "pool": "n0",
        "device": "gpu-0",
        "shareID": "s",
        "consumedCapacity": consumed,
    }


def test_all_claims_of_a_pod_make_one_report():
    found = reports(pod(), [claim(half()), claim(half(), owner="uid-p"), claim(cpuset="0-3")], CARDS)
    assert found.keys() == {DEVICES, CPUS}
    assert [each["minor"] for each in json.loads(found[DEVICES])["gpu"]] == [0, 0]
    assert json.loads(found[CPUS]) == {"cpuset": "0-3"}


def test_a_claim_that_is_not_allocated_is_no_report():
    assert reports(pod(), [claim(cpuset="0-3", allocated=False)], CARDS) == {}


@pytest.mark.parametrize(
    ("user", "reported"),
    [
        pytest.param(pod(), False, id="named-by-the-status-alone"),
        pytest.param(pod("uid-p", "c"), True, id="named-by-the-spec"),
        pytest.param(pod("uid-other"), True, id="its-own"),
    ],
)
def test_a_claim_generated_for_another_pod_is_reported_only_if_the_spec_names_it(user, reported):
    assert bool(reports(user, [claim(half(), owner="uid-other")], CARDS)) is reported


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        pytest.param({"spec": {"nodeName": "n0"}}, True, id="bound"),
        pytest.param({"spec": {}}, False, id="not-bound"),
        pytest.param({"spec": {"nodeName": "n0"}, "status": {"phase": "Succeeded"}}, False, id="ended"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n0"}}, False, id="deleted"
        ),
    ],
)
def test_pods_on_a_node_have_reports_while_they_run(content, reported):
    assert is_reported(msgspec.convert({"metadata": {"name": "p"}, **content}, Pod)) is reported
