"""How much of shared devices is taken."""

import pytest
from msgspec.structs import replace

from dra.engine.diagnosis.capacities import capacity_shortages, capacity_usage
from dra.engine.diagnosis.cluster_state import ClusterState
from tests.dra.engine.diagnosis.cluster_states import DRIVER, node, offer, snapshot
from tests.dra.engine.diagnosis.koordinator_pods import CPU_DRIVER, GPU_DRIVER, half, offers, share

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


def lacking(*claims, driver, requested, slices=None):
    cluster = ClusterState(snapshot(*claims, slices=slices or offers(), nodes=[node("n1")]))
    pools = cluster.inventory.node_devices("n1", {}).pools
    found = [each for pool in pools for each in pool.candidates if each.item.driver == driver]
    assert found
    return capacity_shortages(cluster, found, requested)


@pytest.mark.parametrize(
    ("requested", "shortages"),
    [
        pytest.param({"memory": "16Gi", "core": "100"}, (), id="the-second-card-has-all"),
        pytest.param({"memory": "17Gi", "core": "100"}, ("memory: 17Gi requested, 16Gi of 16Gi free",), id="too-much"),
        pytest.param({"other": "1"}, ("other: 1 requested, 0 of 0 free",), id="a-capacity-that-no-device-has"),
        pytest.param(
            {"memory": "20Gi", "core": "200"},
            ("core: 200 requested, 50 of 100 free", "memory: 20Gi requested, 4Gi of 16Gi free"),
            id="both-on-each-card",
        ),
    ],
)
def test_what_a_request_lacks_is_told_of_the_device_that_has_most(requested, shortages):
    assert lacking(*SHARES, driver=GPU_DRIVER, requested=requested) == shortages


@pytest.mark.parametrize(
    ("server", "shortages"),
    [
        pytest.param("v1.37.2", (f"{CPU_DRIVER}/cpu: 12 requested, 0 of 0 free",), id="1.37"),
        pytest.param("v1.38.0", ("cpu: 12 requested, 11 of 14 free",), id="1.38"),
    ],
)
def test_a_capacity_with_and_without_the_drivers_domain_is_one_since_1_38(server, shortages):
    taken = share("cpus", "cpus", driver=CPU_DRIVER, **{f"{CPU_DRIVER}/cpu": "3"})
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    device = {"name": "cpus", "allowMultipleAllocations": True, "capacity": {"cpu": {"value": "14"}}}
    slices = [
        {
            "metadata": {"name": "n1-cpus"},
            "spec": {"driver": CPU_DRIVER, "nodeName": "n1", "pool": pool, "devices": [device]},
        }
    ]
    found = ClusterState(replace(snapshot(taken, slices=slices, nodes=[node("n1")]), server=server))
    (candidate,) = found.inventory.node_devices("n1", {}).pools[0].candidates
    assert capacity_shortages(found, [candidate], {f"{CPU_DRIVER}/cpu": "12"}) == shortages


def test_what_claims_take_beyond_a_published_amount_is_not_free():
    taken = (share("one", "cpus", driver=CPU_DRIVER, cpu="9"), share("two", "cpus", driver=CPU_DRIVER, cpu="7"))
    assert lacking(*taken, driver=CPU_DRIVER, requested={"dra.cpu/cpu": "1"}) == (
        "dra.cpu/cpu: 1 requested, 0 of 14 free",
    )


def test_devices_that_are_not_shared_lack_no_capacity():
    assert lacking(driver=DRIVER, requested={"memory": "1"}, slices=[offer("n1")]) == ()
