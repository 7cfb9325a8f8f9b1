"""A file describes a node; it is followed while it changes, and refused with the path of the field."""

import asyncio
import logging
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.inventory.gpus import GpuFault
from kubeletplugin.inventory.node_file import NodeInventory, parse_node_inventory
from kubeletplugin.inventory.simulated import MalformedInventoryError, SimulatedGpuInventory, simulated_gpus

EXAMPLES = Path(__file__).parents[3] / "examples" / "gpus"
PRODUCT = {"productName": "NVIDIA T4", "memory": "15Gi"}


def document(*groups, **fields):
    head = {"apiVersion": "reserve.dra/v1alpha1", "kind": "NodeInventory", "products": {"t4": PRODUCT}}
    return head | {"gpus": list(groups)} | fields


def group(**fields):
    return {"product": "t4"} | fields


def read(*groups, node="n1", **fields):
    return simulated_gpus(parse_node_inventory(yaml.safe_dump(document(*groups, **fields))), node=node)


def test_minors_are_counted_through_all_groups():
    found = read(group(count=2), group(count=3))
    assert [each.minor for each in found] == [0, 1, 2, 3, 4]
    assert {each.product for each in found} == {"NVIDIA T4"}
    assert {each.memory for each in found} == {15 * 2**30}


def test_nodes_and_roots_are_dealt_in_blocks():
    found = read(group(count=4, numaNodes=[0, 1], pcieRoots=["pci0000:17", "pci0000:60"]))
    assert [each.numa_node for each in found] == [0, 0, 1, 1]
    assert [each.pci_bus_id for each in found] == ["0000:18:00.0", "0000:19:00.0", "0000:61:00.0", "0000:62:00.0"]


def test_neighbouring_roots_do_not_give_one_address_twice():
    found = read(group(count=9, pcieRoots=["pci0000:17", "pci0000:18", "pci0000:ff"]), group(count=300))
    assert len({each.pci_bus_id for each in found}) == 309


def test_uuids_are_the_same_each_time_and_others_on_other_nodes():
    assert read(group(count=3)) == read(group(count=3))
    assert {each.uuid for each in read(group(count=3))}.isdisjoint(
        each.uuid for each in read(group(count=3), node="n2")
    )


def test_a_missing_gpu_leaves_the_others_as_they_were():
    whole = read(group(count=3))
    assert read(group(count=3), missing=[1]) == (whole[0], whole[2])


def test_faults_belong_to_one_gpu():
    xid = {"minor": 1, "reason": "xid", "value": "79", "message": "off the bus"}
    found = read(group(count=2), unhealthy=[xid, {"minor": 1}])
    assert found[0].faults == ()
    assert found[1].faults == (GpuFault(reason="xid", value="79", message="off the bus"), GpuFault(reason="unhealthy"))


def test_attributes_of_a_group_come_over_those_of_its_product():
    products = {"t4": PRODUCT | {"attributes": {"migCapable": False, "links": 4}}}
    assert read(group(attributes={"links": 2}), products=products)[0].extra == {"migCapable": False, "links": 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: [", "invalid YAML: while parsing", id="no-yaml"),
        pytest.param("- a", "must be a YAML object with apiVersion, kind, products and gpus", id="a-list"),
        pytest.param({}, "apiVersion: required; kind: required", id="empty"),
        pytest.param(
            document(group(cuont=3)),
            "gpus[0].cuont: unknown field; did you mean count?",
            id="typo",
        ),
        pytest.param(
            document(products={"t4": PRODUCT | {"mem": 1}}),
            "products.t4.mem: unknown field; known are architecture, attributes, brand, cudaComputeCapability, "
            "memory, productName",
            id="typo-in-a-product",
        ),
        pytest.param(
            document(group(), group(product="t5")),
            "gpus[1].product: no product 't5'; products has t4",
            id="unknown-product",
        ),
        pytest.param(
            document(group(count=0)),
            "gpus[0].count: input should be greater than or equal to 1, not 0",
            id="count-of-nothing",
        ),
        pytest.param(
            document(products={"t4": PRODUCT | {"memory": "lots"}}),
            "products.t4.memory: 'lots' is not a quantity; write it as in: 500m, 2, 16Gi, 1e3",
            id="memory",
        ),
        pytest.param(
            document(group(count=2, uuids=["GPU-1"])),
            "gpus[0]: uuids has 1 entries, and count is 2",
            id="one-uuid-for-two",
        ),
        pytest.param(
            document(group(uuids=["GPU-1"]), group(uuids=["GPU-1"])), "uuids: GPU-1 must be unique", id="uuid-twice"
        ),
        pytest.param(
            document(group(), unhealthy=[{"minor": 1}]),
            "unhealthy[0]: no GPU has minor 1; there are 1 GPUs",
            id="ill-and-not-there",
        ),
        pytest.param(document(group(), missing=[4]), "missing[0]: no GPU has minor 4; there are 1 GPUs", id="missing"),
        pytest.param(
            document(group(attributes={"uuid": "x"})),
            "gpus[0].attributes: uuid must not be among them: use the fields of these names",
            id="own-attribute",
        ),
        pytest.param(
            document(products={"t4": PRODUCT | {"productName": "x" * 65}}),
            "products.t4.productName: must have at most 64 bytes",
            id="long-name",
        ),
    ],
)
def test_what_cannot_be_a_node_is_refused_with_the_path(tmp_path, text, said):
    path = tmp_path / "node.yaml"
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    with pytest.raises(MalformedInventoryError) as caught:
        SimulatedGpuInventory(path, node="n1")
    assert str(caught.value).startswith(f"inventory {path}: {said}")


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        SimulatedGpuInventory(tmp_path / "none.yaml", node="n1")


@pytest.mark.parametrize(
    ("name", "count", "sockets"),
    [
        pytest.param("inventory-8xh100.yaml", 8, {0, 1}, id="8xh100"),
        pytest.param("inventory-mixed.yaml", 8, {0, 1}, id="mixed"),
        pytest.param("inventory-one.yaml", 1, {None}, id="one"),
    ],
)
def test_the_examples_are_nodes(name, count, sockets):
    found = SimulatedGpuInventory(EXAMPLES / name, node="n1").read()
    assert len(found) == count
    assert {each.numa_node for each in found} == sockets


def write(path, content):
    """Put another file in its place, as editors and ConfigMap volumes do."""
    beside = path.with_suffix(".new")
    beside.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    os.replace(beside, path)  # noqa: PTH105


def test_a_changed_file_is_followed(tmp_path):
    path = tmp_path / "node.yaml"
    write(path, document(group(count=2)))
    inventory = SimulatedGpuInventory(path, node="n1")
    write(path, document(group(count=2), unhealthy=[{"minor": 0}]))
    assert [bool(each.faults) for each in inventory.read()] == [True, False]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: write(path, "a: ["), id="no-yaml"),
        pytest.param(lambda path: write(path, document(group(cuont=1))), id="typo"),
    ],
)
def test_a_file_that_goes_bad_changes_nothing_and_is_told_once(tmp_path, caplog, damage):
    path = tmp_path / "node.yaml"
    write(path, document(group(count=2)))
    inventory = SimulatedGpuInventory(path, node="n1")
    before = inventory.read()
    damage(path)
    with caplog.at_level(logging.WARNING):
        assert inventory.read() == inventory.read() == before
    assert [record.message.endswith("; the GPUs stay unchanged") for record in caplog.records] == [True]
    write(path, document(group(count=1)))
    assert len(inventory.read()) == 1


async def test_changes_are_told_and_nothing_else(tmp_path):
    path = tmp_path / "node.yaml"
    write(path, document(group(count=2)))
    inventory = SimulatedGpuInventory(path, node="n1", every=0.001)
    changes = inventory.changes(inventory.read())
    told = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    write(path, document(group(count=2), driverVersion="1.0.0"))  # another file that says the same
    write(path, document(group(count=1)))
    await asyncio.wait_for(told, 10)
    assert len(inventory.read()) == 1


TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=64)
ATTRIBUTES = st.dictionaries(
    st.from_regex(r"x[A-Za-z0-9_]{0,31}", fullmatch=True),
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    max_size=8,
)
VERSIONS = st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}", fullmatch=True)
PRODUCTS = st.fixed_dictionaries(
    {"productName": TEXTS, "memory": st.integers(1, 2**63 - 1) | st.sampled_from(["1", "1Mi", "80Gi", "1e9"])},
    optional={
        "brand": TEXTS,
        "architecture": TEXTS,
        "cudaComputeCapability": VERSIONS,
        "attributes": ATTRIBUTES,
    },
)
ROOTS = st.builds("pci{:04x}:{:02x}".format, st.integers(0, 0xFFFF), st.integers(0, 0xFF))
GROUPS = st.fixed_dictionaries(
    {"product": st.sampled_from(["a", "b"])},
    optional={
        "count": st.integers(1, 20),
        "numaNodes": st.lists(st.integers(0, 4095), max_size=4),
        "pcieRoots": st.lists(ROOTS, max_size=4),
        "attributes": ATTRIBUTES,
    },
)


@st.composite
def nodes(draw):
    """Draw any node that the schema allows."""
    listed = draw(st.lists(GROUPS, max_size=5))
    count = sum(each.get("count", 1) for each in listed)
    minors = st.integers(0, max(count - 1, 0))
    some = 3 if count else 0
    ailments = st.fixed_dictionaries(
        {"minor": minors},
        optional={"reason": st.sampled_from(["xid", "ecc"]), "value": st.sampled_from(["", "79"]), "message": TEXTS},
    )
    return {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "NodeInventory",
        "driverVersion": draw(VERSIONS),
        "products": {"a": draw(PRODUCTS), "b": draw(PRODUCTS)},
        "gpus": listed,
        "unhealthy": draw(st.lists(ailments, max_size=some)),
        "missing": draw(st.lists(minors, max_size=some)),
    }


@given(nodes())
def test_any_shape_of_node_comes_back_from_its_file(node):
    first = parse_node_inventory(yaml.safe_dump(node))
    again = parse_node_inventory(yaml.safe_dump(first.model_dump(mode="json", by_alias=True)))
    assert again == first
    assert simulated_gpus(again, node="n1") == simulated_gpus(first, node="n1")


@given(nodes())
def test_every_gpu_that_is_not_missing_is_there_once(node):
    inventory = NodeInventory.model_validate(node)
    found = simulated_gpus(inventory, node="n1")
    count = sum(each.get("count", 1) for each in node["gpus"])
    assert [each.minor for each in found] == sorted(set(range(count)) - set(node["missing"]))
    assert len({each.uuid for each in found}) == len({each.pci_bus_id for each in found}) == len(found)


def test_use_of_gpus_is_that_of_the_file_and_follows_it(tmp_path):
    path = tmp_path / "node.yaml"
    text = "usage:\n- {minor: 1, utilizationPercent: 85, memory: 60Gi}\n"
    products = "products: {p: {productName: P, memory: 80Gi}}\ngpus: [{product: p, count: 2}]\n"
    path.write_text(f"apiVersion: reserve.dra/v1alpha1\nkind: NodeInventory\n{products}{text}")
    inventory = SimulatedGpuInventory(path, node="n1")
    (use,) = inventory.read_use()
    assert (use.minor, use.utilization_percent, use.memory_used_bytes) == (1, 85.0, 60 * 2**30)
    assert use.uuid == inventory.read()[1].uuid
    path.write_text(path.read_text().replace("minor: 1", "minor: 7"))
    assert inventory.read_use() == (use,), "an invalid file changes nothing"
    path.write_text(f"apiVersion: reserve.dra/v1alpha1\nkind: NodeInventory\n{products}")
    assert inventory.read_use() == ()
