"""A name belongs to one card, whatever its minor is, and survives restarts in a file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.drivers.gpu.device_names import (
    MAX_ABSENT_CARDS,
    Card,
    DeviceNames,
    DeviceNamesError,
    assign_names,
    card_of,
)
from kubeletplugin.inventory.gpus import Gpu, GpuFault
from tests.violations import for_each_case

LOST = (GpuFault(reason="gpu-lost"),)


def gpu(minor, uuid="", at="", **fields):
    return Gpu(minor=minor, index=minor, uuid=uuid, pci_bus_id=at, product="L4", **fields)


def card(uuid="", at="", product="L4"):
    return Card(uuid=uuid, pci_bus_id=at, product=product)


def named(gpus, known=None):
    return {each.name: (each.uuid, [fault.reason for fault in each.faults]) for each in assign_names(gpus, known or {})}


@for_each_case(
    [
        pytest.param([gpu(0, "A"), gpu(1, "B")], {}, {"gpu-0": ("A", []), "gpu-1": ("B", [])}, id="by-minor-at-first"),
        pytest.param(
            [gpu(0, "B"), gpu(1, "A")],
            {"gpu-0": card("A"), "gpu-1": card("B")},
            {"gpu-0": ("A", []), "gpu-1": ("B", [])},
            id="names-stay-when-minors-move",
        ),
        pytest.param([gpu(0, "B", at="2")], {"gpu-1": card("B", "1")}, {"gpu-1": ("B", [])}, id="in-another-slot"),
        pytest.param([gpu(0, "N")], {"gpu-0": card("A")}, {"gpu-1": ("N", [])}, id="a-dead-cards-name-is-not-reused"),
        pytest.param(
            [gpu(0, "N"), gpu(1, "M")],
            {"gpu-0": card("A")},
            {"gpu-1": ("M", []), "gpu-2": ("N", [])},
            id="a-new-card-does-not-take-the-number-of-another-new-one",
        ),
        pytest.param(
            [gpu(1, "A", faults=LOST), gpu(1, "B")],
            {},
            {"gpu-0": ("A", ["gpu-lost"]), "gpu-1": ("B", [])},
            id="the-minor-of-a-lost-card-is-of-former-times",
        ),
        pytest.param([gpu(0, at="1")], {"gpu-3": card("", "1")}, {"gpu-3": ("", [])}, id="by-address-without-uuid"),
        pytest.param(
            [gpu(0, "A", at="1")], {"gpu-3": card("", "1")}, {"gpu-3": ("A", [])}, id="a-uuid-that-is-told-later"
        ),
        pytest.param(
            [gpu(0, at="1")], {"gpu-3": card("", "1", "A100")}, {"gpu-0": ("", [])}, id="another-model-at-its-address"
        ),
        pytest.param(
            [gpu(0, at="1")],
            {"gpu-3": card("A", "1")},
            {"gpu-3": ("", ["unknown-uuid"])},
            id="a-card-that-does-not-tell-whether-it-is-the-same",
        ),
        pytest.param(
            [gpu(0, "A", at="1"), gpu(1, "A", at="2")],
            {"gpu-5": card("A", "2")},
            {"gpu-0": ("A", ["duplicate-uuid"]), "gpu-5": ("A", ["duplicate-uuid"])},
            id="one-uuid-of-two-cards",
        ),
        pytest.param([gpu(4)], {"gpu-4": card("A")}, {"gpu-0": ("", [])}, id="no-identity-at-all"),
    ]
)
def test_names(gpus, known, names):
    assert named(gpus, known) == names


UUIDS = st.lists(st.sampled_from("ABCDEFGH"), max_size=5, unique=True)


@given(boots=st.lists(UUIDS, min_size=1, max_size=6))
def test_no_name_ever_means_two_cards_and_every_card_has_one(boots, tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "device-names.json"
    ever = {}
    for uuids in boots:
        names = DeviceNames(path)
        gpus = names.assign([gpu(minor, uuid) for minor, uuid in enumerate(uuids)])
        names.record(gpus, held=frozenset())
        assert sorted(each.uuid for each in gpus) == sorted(uuids)
        for each in gpus:
            assert ever.setdefault(each.name, each.uuid) == each.uuid


def test_what_is_recorded_is_known_to_the_next_process_and_to_another_instance(tmp_path):
    path = tmp_path / "device-names.json"
    first, other = DeviceNames(path), DeviceNames(path)
    assert not path.exists()
    first.record(first.assign([gpu(0, "A", at="1")]), held=frozenset())
    assert json.loads(path.read_text()) == {
        "version": 1,
        "devices": [{"uuid": "A", "pciBusId": "1", "product": "L4", "name": "gpu-0"}],
    }
    assert path.stat().st_mode & 0o777 == 0o600
    for names in (other, DeviceNames(path)):
        gpus = names.assign([gpu(0, "B"), gpu(1, "A")])
        assert {each.uuid: each.name for each in gpus} == {"A": "gpu-0", "B": "gpu-1"}


def test_the_file_is_written_only_when_something_is_new_and_again_when_it_was_removed(tmp_path):
    path = tmp_path / "device-names.json"
    names = DeviceNames(path)
    gpus = names.assign([gpu(0, "A")])
    names.record(gpus, held=frozenset())
    before = path.stat()
    names.record(gpus, held=frozenset())
    names.record([], held=frozenset())
    assert path.stat() == before
    path.unlink()
    names.record([], held=frozenset())
    assert {each.uuid: each.name for each in DeviceNames(path).assign([gpu(0, "B"), gpu(1, "A")])}["A"] == "gpu-0"


def test_cards_of_claims_come_before_names_by_minor_and_after_recorded_ones(tmp_path):
    names = DeviceNames(tmp_path / "device-names.json")
    assert {each.name: each.uuid for each in names.assign([gpu(0, "B")])} == {"gpu-0": "B"}
    assert names.adopt([("gpu-0", card("A")), ("gpu-1", card("B")), ("gpu-2", card())])
    assert not names.adopt([("gpu-0", card("A"))])
    gpus = names.assign([gpu(0, "B"), gpu(1, "C")])
    assert {each.name: each.uuid for each in gpus} == {"gpu-1": "B", "gpu-2": "C"}
    names.record(gpus, held=frozenset())
    assert not names.adopt([("gpu-0", card("X")), ("gpu-7", card("C"))])


@pytest.mark.parametrize("content", ["", "{", '{"version": 2}', '{"version": 1, "devices": [{"uuid": "A"}]}'])
def test_a_file_that_cannot_be_read_is_an_error_with_the_remedy(tmp_path, content):
    path = tmp_path / "device-names.json"
    path.write_text(content)
    with pytest.raises(DeviceNamesError, match=f"file {path}: cannot be read .*restore the file"):
        DeviceNames(path).assign([gpu(0, "A")])
    assert path.read_text() == content


def test_of_absent_cards_the_oldest_are_forgotten_unless_a_claim_has_their_name(tmp_path):
    names = DeviceNames(tmp_path / "device-names.json")
    for start in range(0, MAX_ABSENT_CARDS + 16, 8):
        gpus = names.assign([gpu(minor, f"GPU-{start + minor}") for minor in range(8)])
        names.record(gpus, held=frozenset({"gpu-3"}))
    recorded = {each["name"] for each in json.loads((tmp_path / "device-names.json").read_text())["devices"]}
    assert len(recorded) == MAX_ABSENT_CARDS + 8
    assert {"gpu-0", "gpu-1", "gpu-2", "gpu-3"} & recorded == {"gpu-3"}


def test_a_uuid_that_is_not_told_any_more_stays_recorded(tmp_path):
    names = DeviceNames(tmp_path / "device-names.json")
    names.record(names.assign([gpu(0, "A", at="1")]), held=frozenset())
    names.record(names.assign([gpu(0, "", at="1")]), held=frozenset())
    assert named([gpu(0, "B", at="1")], {"gpu-0": card("A", "1")}) == {"gpu-1": ("B", [])}
    (other,) = DeviceNames(tmp_path / "device-names.json").assign([gpu(0, "B", at="1")])
    assert other.name == "gpu-1"


def test_a_card_is_told_by_its_uuid_or_its_place():
    assert [str(each) for each in (card("A", "1"), card("", "1"), Card())] == ["GPU A", "L4 at 1", "GPU at ?"]
    assert card_of(gpu(0, "A", at="1")) == card("A", "1")
    assert not Card().is_same(Card())
