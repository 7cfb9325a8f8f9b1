import pytest

from dra.model.meta import Uid
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.contract import Pool
from kubeletplugin.slices.desired_slices import (
    DriverOnNode,
    generate_name,
    node_owner_reference,
    slice_spec,
    slices_for_pools,
)
from kubeletplugin.slices.validation import MalformedPoolError
from tests.violations import for_each_case

DRIVER = "gpu.example.com"
PLACE = DriverOnNode(driver=DRIVER, node="n1")
TAINT = DeviceTaint(key="example.com/sick", effect="NoSchedule")


def devices(count, **last):
    return tuple(Device(name=f"gpu-{i}", **(last if i == count - 1 else {})) for i in range(count))


def sizes(*pools):
    return [len(piece.devices) for piece in slices_for_pools(pools, driver=DRIVER)]


@for_each_case(
    [
        pytest.param(0, {}, [], id="no-devices-no-slice"),
        pytest.param(128, {}, [128], id="a-full-slice"),
        pytest.param(129, {}, [128, 1], id="one-more"),
        pytest.param(129, {"taints": [TAINT]}, [64, 64, 1], id="a-taint-halves-all-slices-of-its-pool"),
        pytest.param(65, {"consumes_counters": [{"counterSet": "a"}]}, [64, 1], id="counters"),
        pytest.param(65, {"attributes": {"numa": {"ints": [0, 1]}}}, [64, 1], id="lists"),
        pytest.param(65, {"attributes": {"numa": {"int": 0}}}, [65], id="plain-attributes-do-not"),
    ]
)
def test_a_pool_is_cut_into_slices_that_are_taken(count, last, expected):
    assert sizes(Pool(name="n1", devices=devices(count, **last))) == expected


def test_the_first_taint_of_a_taintable_pool_shifts_no_device():
    def names(**last):
        pool = Pool(name="n1", devices=devices(129, **last), taintable=True)
        return [[device.name for device in piece.devices] for piece in slices_for_pools([pool], driver=DRIVER)]

    assert names() == names(taints=[TAINT])
    assert [len(each) for each in names()] == [64, 64, 1]


def test_each_pool_is_cut_for_itself():
    plain, tainted = Pool(name="a", devices=devices(100)), Pool(name="b", devices=devices(100, taints=[TAINT]))
    assert sizes(plain, tainted) == [100, 64, 36]


def test_the_order_of_devices_stays():
    pieces = slices_for_pools([Pool(name="n1", devices=devices(300))], driver=DRIVER)
    assert [d.name for piece in pieces for d in piece.devices] == [f"gpu-{i}" for i in range(300)]
    assert [(piece.index, piece.count) for piece in pieces] == [(0, 3), (1, 3), (2, 3)]


def test_pools_of_one_name_are_refused():
    with pytest.raises(MalformedPoolError, match="pool names must be unique"):
        slices_for_pools([Pool(name="a", devices=devices(1)), Pool(name="a", devices=())], driver=DRIVER)


def test_a_slice_says_where_it_belongs():
    (piece,) = slices_for_pools([Pool(name="n1", devices=devices(1, taints=[TAINT]))], driver=DRIVER)
    assert slice_spec(piece, PLACE, generation=7) == {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 7, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": [{"key": "example.com/sick", "effect": "NoSchedule"}]}],
    }
    assert node_owner_reference("n1", Uid("u")).controller


def test_names_sort_as_the_slices_do():
    assert generate_name(PLACE, 0) == "000-gpu.example.com-n1-"
    assert sorted(generate_name(PLACE, i) for i in range(300)) == [generate_name(PLACE, i) for i in range(300)]


def test_a_prefix_of_long_names_is_still_one_of_a_name():
    prefix = generate_name(DriverOnNode(driver="d" * 63, node=".".join(["n" * 50] * 4)), 1)
    assert len(prefix) <= 248
    assert not prefix[:-1].endswith((".", "-"))
