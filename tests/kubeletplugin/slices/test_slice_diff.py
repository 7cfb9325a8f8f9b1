from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.meta import ObjectMeta, Uid
from dra.model.slices import Device, ResourceSlice
from dra.model.taints import DeviceTaint
from kubeletplugin.contract import Pool
from kubeletplugin.slices.desired_slices import MANAGED_BY, DriverOnNode, node_owner_reference, slices_for_pools
from kubeletplugin.slices.slice_diff import (
    AcceptedDevices,
    CreateSlice,
    DeleteSlice,
    UpdateSlice,
    devices_equal,
    dropped_fields,
    plan_slice_writes,
)
from tests.violations import for_each_case

PLACE = DriverOnNode(driver="gpu.example.com", node="n1")
OWNER = node_owner_reference("n1", Uid("node-uid"))
TAINT = DeviceTaint(key="example.com/sick", effect="NoSchedule")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ARRIVED = DeviceTaint(key=TAINT.key, effect=TAINT.effect, time_added=NOON)


class Server:
    """Does what is to be written."""

    def __init__(self):
        self.slices = {}
        self.made = 0

    def plan(self, *pools, accepted=None, owning=OWNER):
        pieces = slices_for_pools(pools, driver=PLACE.driver)
        return plan_slice_writes(self.slices.values(), pieces, owner=owning, accepted=accepted or {})

    def apply(self, *pools, owning=OWNER):
        plan = self.plan(*pools, owning=owning)
        for write in plan:
            if isinstance(write, DeleteSlice):
                del self.slices[write.found.metadata.name]
                continue
            body = write.body(PLACE, owning)
            if isinstance(write, CreateSlice):
                self.made += 1
                name = f"{body['metadata']['generateName']}{self.made:05}"
                metadata = {"name": name, "uid": f"uid-{self.made}", **body["metadata"]}
            else:
                metadata = {**msgspec.to_builtins(write.found.metadata), **body["metadata"]}
            found = msgspec.convert({"metadata": metadata, "spec": body["spec"]}, ResourceSlice)
            self.slices[found.metadata.name] = found
        return [type(write) for write in plan]

    @property
    def generations(self):
        return {each.spec.pool.generation for each in self.slices.values()}


def pool(*names, **fields):
    return Pool(name="n1", devices=tuple(Device(name=name, **fields) for name in names))


def gpus(count, **fields):
    return pool(*(f"gpu-{i}" for i in range(count)), **fields)


def test_what_is_wanted_is_made_and_then_left_alone():
    server = Server()
    assert server.apply(gpus(300)) == [CreateSlice] * 3
    assert server.generations == {1}
    assert server.plan(gpus(300)) == ()


def test_one_slice_that_changes_keeps_the_generation():
    server = Server()
    server.apply(gpus(300))
    changed = Pool(name="n1", devices=(*gpus(299).devices, Device(name="gpu-299", attributes={"a": {"int": 1}})))
    assert server.apply(changed) == [UpdateSlice]
    assert server.generations == {1}


def test_two_slices_that_change_make_a_new_generation_of_all():
    server = Server()
    server.apply(gpus(300))
    changed = Pool(name="n1", devices=(Device(name="new"), *gpus(298).devices, Device(name="newer")))
    assert server.apply(changed) == [UpdateSlice] * 3
    assert server.generations == {2}


def test_a_slice_more_makes_a_new_generation():
    server = Server()
    server.apply(gpus(128))
    assert server.apply(gpus(129)) == [UpdateSlice, CreateSlice]
    assert server.generations == {2}


def test_a_slice_less_goes_before_the_others_change():
    server = Server()
    server.apply(gpus(129))
    assert server.apply(gpus(128)) == [DeleteSlice, UpdateSlice]
    assert server.generations == {2}


def test_a_pool_that_is_gone_takes_its_slices_with_it():
    server = Server()
    server.apply(gpus(129))
    assert server.apply() == [DeleteSlice, DeleteSlice]


def test_a_slice_stays_with_its_devices_when_those_before_it_go():
    server = Server()
    server.apply(gpus(256))
    second = max(server.slices)
    assert server.apply(Pool(name="n1", devices=gpus(256).devices[128:])) == [DeleteSlice, UpdateSlice]
    assert list(server.slices) == [second]


def test_slices_of_an_older_generation_go_without_a_new_one():
    server = Server()
    server.apply(gpus(1))
    (current,) = server.slices.values()
    old = msgspec.structs.replace(current, metadata=ObjectMeta(name="old", uid=Uid("old")))
    newer = msgspec.structs.replace(current.spec, pool=msgspec.structs.replace(current.spec.pool, generation=5))
    server.slices = {"old": old, current.metadata.name: msgspec.structs.replace(current, spec=newer)}
    assert server.apply(gpus(1)) == [DeleteSlice]
    assert server.generations == {5}


@pytest.mark.parametrize(
    "owning", [node_owner_reference("n1", Uid("another-node")), node_owner_reference("n1", Uid(""))]
)
def test_a_slice_whose_node_is_another_by_now_is_given_its_owner(owning):
    server = Server()
    server.apply(gpus(1))
    assert server.apply(gpus(1), owning=owning) == [UpdateSlice]
    assert server.apply(gpus(1), owning=owning) == []


def test_a_slice_without_our_label_gets_it_and_keeps_the_others():
    server = Server()
    server.apply(gpus(1))
    ((name, found),) = server.slices.items()
    theirs = msgspec.structs.replace(found.metadata, labels={"team": "ml"})
    server.slices[name] = msgspec.structs.replace(found, metadata=theirs)
    assert server.apply(gpus(1)) == [UpdateSlice]
    assert server.slices[name].metadata.labels == {"team": "ml", **MANAGED_BY}


def test_a_taint_keeps_the_time_of_its_arrival_when_its_slice_is_written_again():
    server = Server()
    server.apply(pool("gpu-0", taints=[TAINT]))
    ((name, found),) = server.slices.items()
    arrived = Device(name="gpu-0", taints=[ARRIVED])
    server.slices[name] = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, devices=[arrived]))
    assert server.plan(pool("gpu-0", taints=[TAINT])) == ()
    assert server.apply(pool("gpu-0", "gpu-1", taints=[TAINT])) == [UpdateSlice]
    first, second = server.slices[name].spec.devices
    assert first == arrived
    assert second.taints == [TAINT]


def gpu(**fields):
    return Device(name="gpu-0", **fields)


@for_each_case(
    [
        pytest.param(gpu(), gpu(attributes={}, taints=[]), True, id="empty-is-nothing"),
        pytest.param(gpu(capacity={"m": {"value": "1024Mi"}}), gpu(capacity={"m": {"value": "1Gi"}}), True, id="1Gi"),
        pytest.param(gpu(capacity={"m": {"value": "1G"}}), gpu(capacity={"m": {"value": "1Gi"}}), False, id="1G"),
        pytest.param(
            gpu(attributes={"m": {"string": "1Gi"}}), gpu(attributes={"m": {"string": "1024Mi"}}), False, id="text"
        ),
        pytest.param(gpu(attributes={"m": {"int": 1}}), gpu(attributes={"m": {"bool": True}}), False, id="types"),
        pytest.param(gpu(taints=[TAINT]), gpu(), False, id="no-taint"),
        pytest.param(gpu(taints=[TAINT]), gpu(taints=[ARRIVED]), True, id="taint-with-time"),
        pytest.param(gpu(taints=[ARRIVED]), gpu(taints=[TAINT]), False, id="time-lost"),
        pytest.param(gpu(allow_multiple_allocations=True), gpu(), False, id="shared"),
    ]
)
def test_what_is_the_same(ours, theirs, same):
    assert devices_equal([ours], [theirs]) is same


def test_what_a_server_has_dropped_is_named_once():
    policy = {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}
    sent = [Device(name=f"gpu-{i}", taints=[TAINT], capacity={"memory": policy}) for i in range(3)]
    kept = [Device(name=f"gpu-{i}", capacity={"memory": {"value": "1Gi"}}) for i in range(3)]
    assert dropped_fields(sent, kept) == {"taints": "gpu-0", "requestPolicy": "gpu-0"}
    assert dropped_fields(sent, sent) == {}


def test_what_a_server_made_of_a_slice_is_not_written_again_and_again():
    server = Server()
    wanted = pool("gpu-0", taints=[TAINT])
    server.apply(wanted)
    ((name, found),) = server.slices.items()
    kept = (Device(name="gpu-0"),)
    server.slices[name] = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, devices=list(kept)))
    assert [type(w) for w in server.plan(wanted)] == [UpdateSlice]
    assert server.plan(wanted, accepted={name: AcceptedDevices(sent=wanted.devices, kept=kept)}) == ()


layouts = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 300), st.sampled_from(["", "sick"])), min_size=1, max_size=5
)


@given(layouts=layouts)
def test_whatever_follows_whatever_the_pool_ends_up_whole_and_quiet(layouts):
    server = Server()
    for first, count, taint in layouts:
        devices = [Device(name=f"gpu-{i}") for i in range(first, first + count)]
        if devices and taint:
            devices[0] = Device(name=devices[0].name, taints=[TAINT])
        wanted = Pool(name="n1", devices=tuple(devices))
        before = server.generations
        kinds = server.apply(wanted)
        assert kinds == sorted(kinds, key=[DeleteSlice, UpdateSlice, CreateSlice].index)
        shown = [d for each in server.slices.values() for d in each.spec.devices]
        assert sorted(d.name for d in shown) == sorted(d.name for d in devices)
        assert len(server.generations) <= 1
        if before and server.generations and before != server.generations:
            assert min(server.generations) > max(before)
        assert {s.spec.pool.resource_slice_count for s in server.slices.values()} <= {len(server.slices)}
        assert server.plan(wanted) == ()
