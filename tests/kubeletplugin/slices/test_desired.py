import pytest

from dra.model.meta import Uid
from dra.model.slices import Device
from dra.model.taints import DeviceTaint
from kubeletplugin.contract import Pool
from kubeletplugin.slices.desired import Place, name_prefix, owner, pieces_of, spec_of
from kubeletplugin.slices.limits import MalformedPoolError

DRIVER = "gpu.example.com"
PLACE = Place(driver=DRIVER, node="n1")
TAINT = DeviceTaint(key="example.com/sick", effect="NoSchedule")


def devices(count, **last):
    return tuple(Device(name=f"gpu-{i}", **(last if i == count - 1 else {})) for i in range(count))


def sizes(*pools):
    return [len(piece.devices) for piece in pieces_of(pools, driver=DRIVER)]


@pytest.mark.parametrize(
    ("count", "last", "expected"),
    [
        pytest.param(0, {}, [], id="no-devices-no-slice"),
        pytest.param(128, {}, [128], id="a-full-slice"),
        pytest.param(129, {}, [128, 1], id="one-more"),
        pytest.param(129, {"taints": [TAINT]}, [64, 64, 1], id="a-taint-halves-all-slices-of-its-pool"),
        pytest.param(65, {"consumes_counters": [{"counterSet": "a"}]}, [64, 1], id="counters"),
        pytest.param(65, {"attributes": {"numa": {"ints": [0, 1]}}}, [64, 1], id="lists"),
        pytest.param(65, {"attributes": {"numa": {"int": 0}}}, [65], id="plain-attributes-do-not"),
    ],
)
def test_a_pool_is_cut_into_slices_that_are_taken(count, last, expected):
    assert sizes(Pool(name="n1", devices=devices(count, **last))) == expected


def test_each_pool_is_cut_for_itself():
    plain, tainted = Pool(name="a", devices=devices(100)), Pool(name="b", devices=devices(100, taints=[TAINT]))
    assert sizes(plain, tainted) == [100, 64, 36]


def test_the_order_of_devices_stays():
    pieces = pieces_of([Pool(name="n1", devices=devices(300))], driver=DRIVER)
    assert [d.name for piece in pieces for d in piece.devices] == [f"gpu-{i}" for i in range(300)]
    assert [(piece.index, piece.count) for piece in pieces] == [(0, 3), (1, 3), (2, 3)]


def test_pools_of_one_name_are_refused():
    with pytest.raises(MalformedPoolError, match="two pools of one name"):
        pieces_of([Pool(name="a", devices=devices(1)), Pool(name="a", devices=())], driver=DRIVER)


def test_a_slice_says_where_it_belongs():
    (piece,) = pieces_of([Pool(name="n1", devices=devices(1, taints=[TAINT]))], driver=DRIVER)
    assert spec_of(piece, PLACE, generation=7) == {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 7, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": [{"key": "example.com/sick", "effect": "NoSchedule"}]}],
    }
    assert owner("n1", Uid("u")).controller


def test_names_sort_as_the_slices_do():
    assert name_prefix(PLACE, 0) == "000-gpu.example.com-n1-"
    assert sorted(name_prefix(PLACE, i) for i in range(300)) == [name_prefix(PLACE, i) for i in range(300)]


def test_a_prefix_of_long_names_is_still_one_of_a_name():
    prefix = name_prefix(Place(driver="d" * 63, node=".".join(["n" * 50] * 4)), 1)
    assert len(prefix) <= 248
    assert not prefix[:-1].endswith((".", "-"))
