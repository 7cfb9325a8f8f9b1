"""The cards and CPUs of a pod's claims."""

import pytest

from dra.engine.diagnosis.allocated_shares import BoundCpus, CardShare
from tests.dra.engine.diagnosis.koordinator_pods import CPU_DRIVER, bound, half, offers, share
from tests.dra.engine.diagnosis.test_translation import explained


@pytest.mark.parametrize(
    ("slices", "ratio"),
    [pytest.param(offers(), "50", id="published"), pytest.param(offers("n2"), "", id="no-longer-published")],
)
def test_a_share_is_told_in_bytes_and_percent(slices, ratio):
    claim = share("a-gpu", "gpu-0", memory="8Gi", core="50")
    facts = explained(half(translated=True, on="n1", koord_gpu_0="a-gpu"), claim, slices=slices)
    wanted = CardShare(claim="a-gpu", node="n1", device="gpu-0", memory="8Gi", ratio=ratio, core="50")
    assert facts.cards == (wanted,)


@pytest.mark.parametrize(
    ("reported", "cpuset"),
    [
        pytest.param("2,4-5", "2,4-5", id="reported"),
        pytest.param("", "", id="not-reported-yet"),
        pytest.param("x", "", id="not-a-list-of-cpus"),
    ],
)
def test_bound_cpus_are_told_as_reported(reported, cpuset):
    claim = share("a-cpus", "cpus", driver=CPU_DRIVER, cpuset=reported, cpu="3")
    facts = explained(bound(translated=True, on="n1", koord_cpus="a-cpus"), claim)
    assert facts.cpus == (BoundCpus(claim="a-cpus", node="n1", count=3, cpuset=cpuset),)


def test_a_device_that_is_one_cpu_counts_as_one():
    claim = share("a-cpus", "cpu-7", driver=CPU_DRIVER)
    facts = explained(bound(translated=True, on="n1", koord_cpus="a-cpus"), claim)
    assert [each.count for each in facts.cpus] == [1]


def test_cpus_of_an_aligned_claim_are_counted_once():
    claim = share("a-numa", "cpus", driver=CPU_DRIVER, cpu="3")
    results = claim["status"]["allocation"]["devices"]["results"]
    results.append({**results[0], "request": "numa", "device": "numa-1", "consumedCapacity": {"numaCPUs": "3"}})
    facts = explained(bound(translated=True, on="n1", koord_cpus="a-numa"), claim)
    assert [each.count for each in facts.cpus] == [3]
