"""From a claim's allocation to what its containers get, and what is refused with which words."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.api.parameters.gpu import TimeSliceInterval
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Uid
from kubeletplugin.cdi import device_ids
from kubeletplugin.contract import (
    ClaimIdentity,
    ContainerEdits,
    DeviceHealthState,
    DeviceNode,
    NotEnforcedError,
    OpaqueParameters,
    PreparedClaim,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.drivers.gpu.container_edits import SimulatedContainerEdits
from kubeletplugin.drivers.gpu.devices import GpuPublishOptions
from kubeletplugin.drivers.gpu.driver import GpuDriver
from kubeletplugin.drivers.gpu.time_slices import SimulatedTimeSlicingManager
from kubeletplugin.inventory.gpus import Gpu, GpuFault
from tests.violations import for_each_case


class Shelf:
    """An inventory that changes when told."""

    def __init__(self, *gpus):
        self.gpus = gpus
        self.news = asyncio.Queue()

    def read(self):
        return self.gpus

    async def changes(self, known):
        del known
        while True:
            self.gpus = await self.news.get()
            yield


def gpu(minor, **fields):
    return Gpu(minor=minor, index=minor, uuid=f"GPU-{minor}", memory=16 * 2**30, nodes=("/dev/null",), **fields)


def driver(*gpus, time_slicing=None, **how):
    return GpuDriver(
        Shelf(*gpus),
        node="n1",
        edits=SimulatedContainerEdits(),
        time_slicing=time_slicing or SimulatedTimeSlicingManager(),
        publication=GpuPublishOptions(**how),
    )


def result(device="gpu-0", *, request="gpu", **fields):
    fields = {"pool": "n1"} | fields
    return DeviceRequestAllocationResult(request=request, driver="gpu.reserve.dra", device=device, **fields)


def config(*requests, **sharing):
    content = {"apiVersion": "reserve.dra/v1alpha1", "kind": "GpuConfig", "sharing": sharing}
    return OpaqueParameters(requests=requests, parameters=content)


def interval(name, *requests):
    return config(*requests, timeSlicingConfig={"interval": name})


def ask(*results, configuration=(), claim="train"):
    identity = ClaimIdentity(key=("ml", claim), uid=Uid(f"uid-{claim}"))
    return PrepareRequest(claim=identity, results=results, configuration=tuple(configuration))


def prepared(*results, configuration=(), others=(), **claim):
    return driver(gpu(0), gpu(1)).prepare(ask(*results, configuration=configuration, **claim), others)


def refusal(*results, configuration=(), others=()):
    with pytest.raises(PrepareError) as caught:
        prepared(*results, configuration=configuration, others=others)
    return str(caught.value)


def variables(preparation):
    return dict(each.split("=", 1) for device in preparation.devices for each in device.edits.env)


def test_a_container_sees_each_gpu_as_a_variable_and_a_node():
    found = prepared(result("gpu-0"), result("gpu-1"))
    assert [each.edits for each in found.devices] == [
        ContainerEdits(
            env=(f"GPU_DEVICE_{n}=GPU-{n}", f"GPU_DEVICE_{n}_TIME_SLICE=Default"),
            device_nodes=(DeviceNode(path=f"/dev/simgpu{n}", host_path="/dev/null", permissions="rw"),),
        )
        for n in (0, 1)
    ]
    assert found.common == ContainerEdits(env=("GPU_SIMULATED=true",))


def test_a_preparation_says_what_the_ledger_holds():
    found = prepared(result(request="gpu/large", share_id="s1"), result("gpu-1", admin_access=True))
    assert [(each.requests, each.share, each.admin) for each in found.devices] == [
        (("gpu",), "s1", False),
        (("gpu",), "", True),
    ]
    assert {(item.device, item.share) for item in found.items} == {("gpu-0", "s1")}


def test_a_preparation_is_plain_data():
    found = prepared(result(), configuration=[interval("Long")])
    assert msgspec.json.decode(msgspec.json.encode(found), type=PreparedClaim) == found


@for_each_case(
    [
        pytest.param([], "Default", "Default", id="nothing-said"),
        pytest.param([interval("Long")], "Long", "Long", id="for-all"),
        pytest.param([interval("Long", "a")], "Long", "Default", id="for-one"),
        pytest.param([interval("Long"), interval("Short", "b")], "Long", "Short", id="of-the-claim-over-the-class"),
        pytest.param([interval("Long", "b"), interval("Short")], "Short", "Short", id="later-over-by-name"),
        pytest.param([interval("Long", "b/large")], "Default", "Long", id="for-the-alternative"),
        pytest.param([interval("Long"), config()], "Default", "Default", id="as-a-whole-not-field-by-field"),
    ]
)
def test_parameters_apply_as_upstream_says(configuration, first, second):
    found = prepared(result("gpu-0", request="a"), result("gpu-1", request="b/large"), configuration=configuration)
    said = variables(found)
    assert (said["GPU_DEVICE_0_TIME_SLICE"], said["GPU_DEVICE_1_TIME_SLICE"]) == (first, second)


def advisory(limit, *requests):
    return config(*requests, memory={"limit": limit, "enforcement": "Advisory"})


@pytest.mark.parametrize(
    ("allocated", "configuration", "limit"),
    [
        pytest.param(result(), [], None, id="none"),
        pytest.param(result(), [advisory("4Gi")], 4 * 2**30, id="asked-for"),
        pytest.param(
            result(share_id="s", consumed_capacity={"memory": "2Gi"}), [], 2 * 2**30, id="a-share-has-its-memory"
        ),
        pytest.param(
            result(share_id="s", consumed_capacity={"memory": "2Gi"}),
            [advisory("1Gi")],
            2**30,
            id="less-than-the-share",
        ),
        pytest.param(
            result(share_id="s", consumed_capacity={"memory": "20389Mi", "core": "25"}),
            [],
            20389 * 2**20,
            id="a-quarter-of-an-odd-size",
        ),
        pytest.param(result(share_id="s"), [], None, id="a-share-that-consumes-nothing"),
    ],
)
def test_a_memory_limit_is_told(allocated, configuration, limit):
    told = variables(prepared(allocated, configuration=configuration)).get("GPU_DEVICE_0_MEMORY_LIMIT")
    assert told == (None if limit is None else str(limit))


@pytest.mark.parametrize(
    ("allocated", "core"),
    [
        pytest.param(result(), None, id="a-whole-gpu"),
        pytest.param(result(share_id="s", consumed_capacity={"memory": "8Gi", "core": "50"}), "50", id="half"),
        pytest.param(result(share_id="s", consumed_capacity={"memory": "8Gi", "core": "0"}), None, id="memory-alone"),
        pytest.param(result(share_id="s", consumed_capacity={"memory": "8Gi"}), None, id="published-without-compute"),
    ],
)
def test_a_share_of_the_compute_is_told(allocated, core):
    assert variables(prepared(allocated)).get("GPU_DEVICE_0_CORE") == core


@for_each_case(
    [
        pytest.param(
            [result()],
            [config("gpu", strategy="MPS")],
            "claim ml/train: request gpu: GpuConfig.sharing.strategy: this driver does not "
            "support MPS, which needs a control daemon for each claim; use TimeSlicing, or NVIDIA's driver for this "
            "claim",
            id="mps",
        ),
        pytest.param(
            [result()],
            [config("a", "b", stratgy="x")],
            "claim ml/train: requests a, b: GpuConfig.sharing.stratgy: unknown field; did you mean strategy?",
            id="typo-even-if-it-does-not-apply",
        ),
        pytest.param(
            [result()],
            [OpaqueParameters(requests=(), parameters={"kind": "GpuConfig"})],
            "claim ml/train: all requests: apiVersion: must be reserve.dra/v1alpha1, not nothing",
            id="no-version",
        ),
        pytest.param(
            [result("gpu-7")],
            [],
            "claim ml/train: request gpu: device gpu-7 is not on node n1 (present: gpu-0, gpu-1); if it does not "
            "come back, delete the claim or its pods, so that another device is allocated",
            id="gone",
        ),
        pytest.param(
            [result(pool="n2")],
            [],
            "claim ml/train: request gpu: device gpu-0 is in pool n2, but this is node n1",
            id="of-another-node",
        ),
        pytest.param(
            [result()],
            [advisory("17Gi")],
            "claim ml/train: request gpu: GpuConfig.sharing.memory.limit: 17Gi exceeds gpu-0 (17179869184 "
            "bytes); request less",
            id="more-than-there-is",
        ),
        pytest.param(
            [result(share_id="s", consumed_capacity={"memory": "2Gi"})],
            [advisory("3Gi")],
            "claim ml/train: request gpu: GpuConfig.sharing.memory.limit: 3Gi exceeds its share of gpu-0 "
            "(2147483648 bytes); request less",
            id="more-than-the-share",
        ),
        pytest.param(
            [result(request="a", share_id="s"), result(request="b", share_id="t")],
            [interval("Long", "a"), interval("Short", "b")],
            "claim ml/train: request b: GpuConfig.sharing.timeSlicingConfig.interval: Short conflicts with "
            "Long, which another claim has set for gpu-0; request Long or Default",
            id="two-minds",
        ),
    ]
)
def test_a_refusal_begins_with_the_claim_and_the_request(results, configuration, said):
    assert refusal(*results, configuration=configuration) == said


def test_two_shares_of_one_gpu_in_a_claim_have_ids_and_amounts_of_their_own():
    shares = [
        result(request="a", share_id="s", consumed_capacity={"memory": "2Gi", "core": "25"}),
        result(request="b", share_id="t", consumed_capacity={"memory": "4Gi", "core": "50"}),
    ]
    found = prepared(*shares)
    assert device_ids(found) == (("gpu.reserve.dra/claim=uid-train-0",), ("gpu.reserve.dra/claim=uid-train-1",))
    assert [each.share for each in found.devices] == ["s", "t"]
    assert [
        f"GPU_DEVICE_0_CORE={core}" in each.edits.env for each, core in zip(found.devices, (25, 50), strict=True)
    ] == [
        True,
        True,
    ]


def test_a_partitioned_gpu_is_refused():
    with pytest.raises(PrepareError, match="has been partitioned"):
        driver(gpu(0, partitioning="MIG mode")).prepare(ask(result()), [])


def test_who_shares_a_gpu_agrees_on_its_time_slices():
    other = prepared(result(share_id="s"), configuration=[interval("Long")], claim="other")
    mine = result(share_id="t")
    assert prepared(mine, configuration=[interval("Long")], others=[other]).state == {"timeSlices": {"gpu-0": "Long"}}
    assert prepared(mine, others=[other]).state == {}
    assert "conflicts with Long" in refusal(mine, configuration=[interval("Short")], others=[other])


class Unable(SimulatedTimeSlicingManager):
    unavailable_reason = "no nvidia-smi found below /"


def test_a_time_slice_that_cannot_be_set_is_refused_and_the_default_is_not():
    subject = driver(gpu(0), time_slicing=Unable())
    with pytest.raises(PrepareError, match="interval: Long cannot be set: no nvidia-smi found below /"):
        subject.prepare(ask(result(), configuration=[interval("Long")]), [])
    assert subject.prepare(ask(result(), configuration=[interval("Default")]), []).devices


async def test_time_slices_are_set_for_claims_and_set_back():
    slices = SimulatedTimeSlicingManager()
    subject = driver(gpu(0), gpu(1), time_slicing=slices)
    await subject.enforce([prepared(result(), configuration=[interval("Long")])])
    assert slices.set == {"GPU-0": "Long", "GPU-1": "Default"}
    await subject.enforce([])
    assert slices.set == {"GPU-0": "Default", "GPU-1": "Default"}


class Failing(SimulatedTimeSlicingManager):
    async def apply(self, wanted):
        return {uuid: f"GPU {uuid}: lost" for uuid, wish in wanted.items() if wish != "Default"}


async def test_a_time_slice_that_cannot_be_set_is_the_failure_of_those_who_want_it():
    subject = driver(gpu(0), gpu(1), time_slicing=Failing())
    wants, others = prepared(result(), configuration=[interval("Long")]), prepared(result("gpu-1"), claim="b")
    with pytest.raises(NotEnforcedError) as caught:
        await subject.enforce([wants, others])
    assert caught.value.reasons == {wants.claim.uid: "GPU GPU-0: lost"}


def test_devices_of_the_node_are_one_pool():
    (pool,) = driver(gpu(0), gpu(1, partitioning="MIG mode")).pools()
    assert (pool.name, [each.name for each in pool.devices]) == ("n1", ["gpu-0"])


def test_health_is_told_with_the_reason():
    ill = gpu(1, faults=(GpuFault(reason="xid", value="79", message="off the bus"), GpuFault(reason="ecc")))
    assert driver(gpu(0), ill, gpu(2, monitored=False)).health() == (
        DeviceHealthState(pool="n1", device="gpu-0", healthy=True),
        DeviceHealthState(pool="n1", device="gpu-1", healthy=False, message="xid 79: off the bus; ecc"),
        DeviceHealthState(pool="n1", device="gpu-2", healthy=None, message="faults of this GPU are not detected"),
    )


@pytest.mark.parametrize("now", [(), (gpu(1, partitioning="MIG mode"),)], ids=["vanished", "partitioned"])
async def test_a_gpu_that_cannot_be_used_any_more_is_unhealthy_at_once(now):
    shelf = Shelf(gpu(0), gpu(1))
    subject = GpuDriver(shelf, node="n1", edits=SimulatedContainerEdits(), time_slicing=SimulatedTimeSlicingManager())
    claim = subject.prepare(ask(result("gpu-1")), ())
    changes = subject.changes()
    shelf.news.put_nowait((gpu(0), *now))
    await asyncio.wait_for(anext(changes), 10)
    gone = DeviceHealthState(
        pool="n1", device="gpu-1", healthy=False, message="has vanished from the node, or is partitioned"
    )
    assert subject.health() == (DeviceHealthState(pool="n1", device="gpu-0", healthy=True), gone)

    again = driver(gpu(0), *now)  # has never seen it
    await again.enforce([claim])
    assert again.health()[-1] == gone
    with pytest.raises(PrepareError, match=r"claim ml/train .*device gpu-1 (is not on node n1|has been partitioned)"):
        again.recheck(claim)


def test_another_pod_of_a_claim_on_a_failed_gpu_starts_and_the_log_says_that_it_is_unhealthy(caplog):
    claim = driver(gpu(1)).prepare(ask(result("gpu-1")), ())
    ill = driver(gpu(1, faults=(GpuFault(reason="xid", value="79"),)))
    ill.recheck(claim)
    ill.prepare(ask(result("gpu-1"), claim="next"), ())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("device gpu-1 is unhealthy, its pod starts anyway: xid 79" in each for each in said)
    assert [each.partition(" ")[2].partition(" ")[0].strip(":") for each in said] == ["ml/train", "ml/next"]


async def test_what_changes_is_published():
    shelf = Shelf(gpu(0))
    subject = GpuDriver(shelf, node="n1", edits=SimulatedContainerEdits(), time_slicing=SimulatedTimeSlicingManager())
    changes = subject.changes()
    shelf.news.put_nowait((gpu(0, faults=(GpuFault(reason="ecc"),)), gpu(1)))
    await asyncio.wait_for(anext(changes), 10)
    (pool,) = subject.pools()
    assert [(each.name, bool(each.taints)) for each in pool.devices] == [("gpu-0", True), ("gpu-1", False)]
    assert [each.healthy for each in subject.health()] == [False, True]


@given(
    limit=st.sampled_from(["1", "0", "16Gi", "17Gi", "9" * 6000, "00001Ki", 5, True, None, {}]) | st.text(max_size=6),
    interval=st.sampled_from([*TimeSliceInterval] * 2 + ["Eternal", 3, None]),
    strategy=st.sampled_from(["TimeSlicing"] * 5 + ["MPS", "", 0]),
    share=st.sampled_from([None, "1Gi", "16Gi"]),
)
def test_whatever_is_asked_for_is_granted_or_refused_with_the_claim_named(limit, interval, strategy, share):
    sharing = {
        "strategy": strategy,
        "timeSlicingConfig": {"interval": interval},
        "memory": {"limit": limit, "enforcement": "Advisory"},
    }
    part = {"share_id": "s", "consumed_capacity": {"memory": share}} if share else {}
    asked = ask(result(**part), configuration=[config(**sharing)])
    try:
        found = driver(gpu(0)).prepare(asked, ())
    except PrepareError as refused:
        assert str(refused).startswith("claim ml/train: ")  # noqa: PT017 - it may also be granted
    else:
        assert [each.device for each in found.devices] == ["gpu-0"]
