"""Capacity that a node keeps from pods: specs/koordinator.md B."""

import json

import msgspec
import pytest

from dra.api.reservations.well_known import MalformedAnnotationError
from dra.engine.cpus import cpusets
from dra.engine.cpus.cpusets import CpuSet
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.engine.reservations.node_reservation import (
    NO_NODE_RESERVATION,
    NodeReservation,
    effective_node_reservation,
    parse,
    select_reserved_cpus,
    trim_allocatable,
)
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.reservations.examples import of
from tests.violations import for_each_case

TWELVE = CpuTopology(
    cpus=tuple(Cpu(id=cpu, core=(cpu % 6) // 2 + 3 * (cpu % 2), numa_node=cpu % 2, socket=cpu % 2) for cpu in range(12))
)
"""Cores i/i+6; the even ones in socket 0."""


def text(**content):
    return json.dumps(content)


def cpu(amount):
    return text(resources={"cpu": amount})


@for_each_case(
    [
        pytest.param(None, "", id="none"),
        pytest.param("{}", "", id="empty"),
        pytest.param(cpu("2"), "0,6", id="an-amount"),
        pytest.param(cpu("2500m"), "0,2,6", id="a-fraction-counts-whole"),
        pytest.param(cpu("0"), "", id="nothing"),
        pytest.param(text(reservedCPUs="0-1"), "0-1", id="named"),
        pytest.param(text(resources={"cpu": "10"}, reservedCPUs="0-1"), "0-1", id="named-ones-win"),
        pytest.param(text(resources={"memory": "1Gi"}), "", id="no-cpu"),
        pytest.param(cpu("6"), "0,2,4,6,8,10", id="a-whole-socket"),
    ]
)
def test_which_cpus_are_kept(annotation, cpus):
    assert select_reserved_cpus(parse(annotation), TWELVE) == cpusets.parse(cpus)


def test_cpus_are_chosen_of_those_that_are_not_others():
    assert select_reserved_cpus(parse(cpu("2")), TWELVE, usable=TWELVE.online - CpuSet({0})) == cpusets.parse("2,8")


@for_each_case(
    [
        pytest.param({"resources": {"cpu": "4", "memory": "8Gi"}}, of(8, memory="24Gi"), id="amounts"),
        pytest.param({"reservedCPUs": "0-5", "resources": {"cpu": "1"}}, of(6, memory="32Gi"), id="named-cpus-count"),
        pytest.param(
            {"reservedCPUs": "0-5", "resources": {"memory": "8Gi"}}, of(6, memory="24Gi"), id="other-resources-stay"
        ),
        pytest.param(
            {"reservedCPUs": "0-5", "applyPolicy": "ReservedCPUsOnly"},
            of(12, memory="32Gi"),
            id="nothing-is-subtracted",
        ),
        pytest.param({"resources": {"cpu": "99"}}, of(memory="32Gi") | {"cpu": 0}, id="never-less-than-nothing"),
        pytest.param({"resources": {"gpu": "1"}}, of(12, memory="32Gi"), id="what-is-not-there"),
        pytest.param(
            {"applyPolicy": "", "resources": {"cpu": "4"}}, of(8, memory="32Gi"), id="empty-policy-is-default"
        ),
    ]
)
def test_what_is_left_for_pods(content, left):
    assert trim_allocatable(of(12, memory="32Gi"), parse(text(**content))) == left


def test_without_an_annotation_nothing_is_kept():
    assert parse(None) == NO_NODE_RESERVATION


def test_an_empty_annotation_keeps_nothing_any_more():
    assert parse("") == NO_NODE_RESERVATION


@for_each_case(
    [
        pytest.param("{", "is not valid JSON", id="no-json"),
        pytest.param('"x"', "Expected `object`, got `str`", id="no-object"),
        pytest.param(text(resource={}), "resource: unknown field; known are resources, reservedCPUs,", id="typo"),
        pytest.param(text(resources=[]), "resources: must be an object", id="a-list"),
        pytest.param(cpu("two"), "resources.cpu: 'two' is not a quantity", id="no-quantity"),
        pytest.param(cpu("-2"), "resources.cpu: -2 is negative", id="negative"),
        pytest.param(
            cpu("9" * 5000),
            "resources.cpu: '9999999999999999…' of 5000 characters is longer than any quantity",
            id="long",
        ),
        pytest.param('{"resources":' + '{"a":' * 100_000, "is nested too deeply", id="deep"),
        pytest.param(text(resources={"cpu": True}), "resources.cpu: must be a quantity", id="boolean"),
        pytest.param(text(reservedCPUs="3-1"), "reservedCPUs: CPU list '3-1': '3-1' runs backwards", id="backwards"),
        pytest.param(text(reservedCPUs="-1"), "reservedCPUs: CPU list '-1'", id="minus-one"),
        pytest.param(text(reservedCPUs="0-99999"), "reservedCPUs: CPU list '0-99999'", id="endless"),
        pytest.param(text(reservedCPUs="0 1"), "reservedCPUs: CPU list '0 1'", id="spaces"),
        pytest.param(text(reservedCPUs=3), "reservedCPUs: must be a string", id="a-number"),
        pytest.param(
            text(reservedCPUs="0,40"), "reservedCPUs: CPUs 40 are not on the node, which has 0-11", id="no-such"
        ),
        pytest.param(cpu("13"), "resources.cpu: 13 is more than the node has (12)", id="too-much"),
        pytest.param(text(resources={"gpu": 1}), "resources.gpu: 1 is more than the node has (0)", id="not-there"),
        pytest.param(
            text(applyPolicy="Only"), "applyPolicy: 'Only' is not valid; use Default or ReservedCPUsOnly", id="policy"
        ),
    ],
)
def test_an_invalid_annotation_is_refused_with_the_field_named(annotation, complaint):
    with pytest.raises(MalformedAnnotationError) as refused:
        parse(annotation, allocatable=of(12, memory="32Gi"), online=TWELVE.online)
    assert str(refused.value).startswith(f"annotation node.koordinator.sh/reservation: {complaint}")


BATCH = {"kubernetes.io/batch-cpu": "9000", "kubernetes.io/batch-memory": "8Gi"}


def test_batch_resources_are_what_is_left_already():
    kept = parse(text(resources={"cpu": "4", "memory": "1Gi", **dict.fromkeys(BATCH, "1")}))
    assert trim_allocatable(of(12, memory="32Gi", **BATCH), kept) == of(8, memory="31Gi", **BATCH)


def node(annotation=None, **allocatable):
    metadata = {"name": "n", "annotations": {"node.koordinator.sh/reservation": annotation} if annotation else {}}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": allocatable}}, SchedulerNode)


@for_each_case(
    [
        pytest.param(None, None, of(12), "", id="none"),
        pytest.param(cpu("4"), None, of(8), "", id="valid"),
        pytest.param(cpu("-4"), NodeReservation(amounts=of(2)), of(10), "resources.cpu: -4 is negative", id="last-one"),
        pytest.param(
            cpu("-4"), NO_NODE_RESERVATION, of(12), "resources.cpu: -4 is negative", id="the-last-one-was-none"
        ),
        pytest.param(
            text(resources={"cpu": "two"}, reservedCPUs="0-2"),
            None,
            of(9),
            "resources.cpu: 'two' is not a quantity",
            id="nobody-remembers-what-can-be-read-counts",
        ),
        pytest.param(
            text(resources={"cpu": "two", "memory": "x"}, reservedCPUs="3-1", applyPolicy="Only", more=1),
            None,
            of(12),
            "more: unknown field; known are resources, reservedCPUs, applyPolicy; "
            "applyPolicy: 'Only' is not valid; use Default or ReservedCPUsOnly; resources.cpu: 'two' is not a quantity",
            id="all-that-is-wrong-is-told",
        ),
        pytest.param(cpu("13"), None, of() | {"cpu": 0}, "resources.cpu: 13 is more than the node has", id="too-much"),
        pytest.param("{", None, of(12), "is not valid JSON", id="nothing-can-be-read"),
    ]
)
def test_what_a_node_has_for_pods(annotation, before, left, fault):
    found = effective_node_reservation(node(annotation, cpu="12"), before=before)
    assert found.allocatable == left
    expected = f"annotation node.koordinator.sh/reservation: {fault}" if fault else ""
    assert found.error.startswith(expected)
    assert bool(found.error) == bool(expected)


def test_of_a_node_that_has_not_told_what_it_has_the_last_one_stays():
    before = NodeReservation(amounts=of(2))
    assert effective_node_reservation(node(cpu("4")), before=before).reservation == before
