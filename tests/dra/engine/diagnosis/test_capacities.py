"""How much of shared devices is taken."""

from dra.engine.diagnosis.capacities import capacity_usage
from dra.engine.diagnosis.cluster_state import ClusterState
from tests.dra.engine.diagnosis.cluster_states import offer, snapshot
from tests.dra.engine.diagnosis.koordinator_pods import CPU_DRIVER, half, offers, share

SHARES = (
    share("one", "gpu-0", memory="8Gi", core="50"),
    share("two", "gpu-0", memory="4Gi", core="0"),
    share("cpus", "cpus", driver=CPU_DRIVER, cpuset="2-4", cpu="3"),
)


def rows(*claims, slices, pods=()):
    found = capacity_usage(ClusterState(snapshot(*claims, slices=slices, pods=pods)))
    return [(each.device, each.capacity, each.used, each.total, each.claims, each.cpus) for each in found]


def test_each_capacity_is_told_with_what_claims_take():
    assert rows(*SHARES, slices=offers()) == [
        ("cpu.reserve.dra/n1/cpus", "dra.cpu/cpu", "3", "14", 1, "2-4"),
        ("gpu.reserve.dra/n1/gpu-0", "core", "50", "100", 2, ""),
        ("gpu.reserve.dra/n1/gpu-0", "memory", "12Gi", "16Gi", 2, ""),
        ("gpu.reserve.dra/n1/gpu-1", "core", "0", "100", 0, ""),
        ("gpu.reserve.dra/n1/gpu-1", "memory", "0", "16Gi", 0, ""),
    ]


def test_devices_that_one_claim_has_alone_are_left_out():
    assert rows(slices=[offer("n1")]) == []


def test_a_pod_with_two_shares_of_a_device_counts_once():
    pod = half(translated=True, on="n1", koord_gpu_0="one", other="two")
    pod["spec"]["resourceClaims"].append({"name": "other", "resourceClaimTemplateName": "t"})
    found = capacity_usage(ClusterState(snapshot(*SHARES, slices=offers(), pods=(pod,))))
    assert {(each.device, each.pods) for each in found if each.claims} == {
        ("gpu.reserve.dra/n1/gpu-0", 1),
        ("cpu.reserve.dra/n1/cpus", 0),
    }
