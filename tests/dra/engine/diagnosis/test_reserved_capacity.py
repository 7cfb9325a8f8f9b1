"""Nodes that have less than their pods and Reservations take: what an audit tells, and whom it names."""

import msgspec
import pytest

from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.engine.diagnosis.snapshot import UnreadResource
from dra.model.device_classes import DeviceClass
from dra.model.meta import ObjectMeta, UnstructuredObject
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.diagnosis.cluster_states import node, pod, snapshot

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"


def holding(name="r", *, on="n1", cpu="6"):
    made = manifest(name, allocateOnce=False, owners=[{"labelSelector": {"matchLabels": {"app": "web"}}}])
    made["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
    status = {"phase": "Available", "nodeName": on, "allocatable": {"cpu": cpu}}
    metadata = msgspec.convert(made["metadata"], ObjectMeta)
    return UnstructuredObject(metadata=metadata, content=made | {"status": status})


def running(name, cpu, *, on="n1", owner=False, resized="", **more):
    metadata = {"labels": {"app": "web"}, "annotations": {ALLOCATED: '{"name":"r","uid":"uid-r"}'}} if owner else {}
    made = pod(name, on=on, phase="Running", metadata=metadata, **more)
    made["spec"]["containers"] = [{"name": "main", "resources": {"requests": {"cpu": resized or cpu}}}]
    resources = {"requests": {"cpu": cpu}}
    made["status"]["containerStatuses"] = [{"name": "main", "resources": resources, "allocatedResources": {"cpu": cpu}}]
    return made


def told(*pods, nodes=None, held=None, **more):
    found = snapshot(pods=pods, nodes=nodes or [node("n1"), node("n2")])
    cluster = ClusterState(msgspec.structs.replace(found, reservations=held or (holding(),), **more))
    return [each for each in audit(cluster) if each.code is ProblemCode.RESERVED_CAPACITY_SHORT]


@pytest.mark.parametrize(
    ("pods", "nodes"),
    [
        pytest.param([], None, id="no-pods"),
        pytest.param([running("a", "2")], None, id="what-is-free-is-used"),
        pytest.param([running("owner", "6", owner=True), running("a", "2")], None, id="its-owner-uses-it"),
        pytest.param([running("a", "8", on="n2")], None, id="another-node"),
        pytest.param([running("a", "2"), running("late", "4", on="")], None, id="a-pod-that-waits"),
        pytest.param([running("a", "2")], [node("n1", keeps="{")], id="an-annotation-that-cannot-be-read"),
    ],
)
def test_reservations_whose_node_has_enough_are_no_problem(pods, nodes):
    assert told(*pods, nodes=nodes) == []


@pytest.mark.parametrize(
    ("pods", "nodes", "lacking", "cause"),
    [
        pytest.param(
            [running("small", "1"), running("grown", "1", resized="5")],
            None,
            "cpu 4",
            "taken by pods outside, the greatest first: ml/grown, ml/small",
            id="a-pod-is-resized",
        ),
        pytest.param(
            [running("owner", "2", owner=True, resized="7"), running("a", "2")],
            None,
            "cpu 1",
            "taken by pods outside, the greatest first: ml/a",
            id="an-owner-grows-beyond-what-is-held",
        ),
        pytest.param(
            [running("a", "2")],
            [node("n1", keeps='{"resources":{"cpu":"3"}}')],
            "cpu 3",
            "the node has less cpu than they hold; compare its allocatable and its annotation "
            "node.koordinator.sh/reservation",
            id="the-node-keeps-more",
        ),
        pytest.param(
            [running("a", "2")],
            [node("n1", cpu="7")],
            "cpu 1",
            "taken by pods outside, the greatest first: ml/a",
            id="the-node-shrinks-a-little",
        ),
        pytest.param(
            [],
            [node("n1", cpu="4")],
            "cpu 2",
            "the node has less cpu than they hold; compare its allocatable and its annotation "
            "node.koordinator.sh/reservation",
            id="the-node-shrinks-below-what-is-held",
        ),
    ],
)
def test_a_shortage_is_told_with_what_causes_it(pods, nodes, lacking, cause):
    (problem,) = told(*pods, nodes=nodes)
    facts = problem.facts_by_name
    assert (str(problem.subject), problem.severity) == ("node n1", ProblemSeverity.WARNING)
    assert (facts["reservations"], facts["lacking"], facts["cause"]) == ("r", lacking, cause)


GADGET = "example.com/gadget"


@pytest.mark.parametrize(
    ("gadgets", "served", "lacking"),
    [
        pytest.param("4", "", None, id="as-many-as-held"),
        pytest.param("0", "", f"{GADGET} 4", id="its-plugin-has-just-ended"),
        pytest.param(None, "", f"{GADGET} 4", id="its-plugin-is-gone"),
        pytest.param(None, GADGET, None, id="devices-serve-it"),
        pytest.param(None, None, None, id="classes-cannot-be-read"),
        pytest.param("0", GADGET, f"{GADGET} 4", id="devices-do-not-serve-what-the-node-counts"),
    ],
)
def test_an_extended_resource_that_a_node_no_longer_has_is_a_shortage(gadgets, served, lacking):
    made = holding()
    status = {**made.content["status"], "allocatable": {"cpu": "2", GADGET: "4"}}
    held = msgspec.structs.replace(made, content={**made.content, "status": status})
    host = node("n1")
    if gadgets is not None:
        host["status"]["allocatable"][GADGET] = gadgets
    classes = msgspec.convert(
        [{"metadata": {"name": "gadgets"}, "spec": {"extendedResourceName": served or None}}], tuple[DeviceClass, ...]
    )
    gaps = (UnreadResource(resource="deviceclasses.resource.k8s.io", why="forbidden"),) if served is None else ()
    found = told(running("a", "2"), nodes=[host], held=(held,), classes=classes, gaps=gaps)
    assert [each.facts_by_name["lacking"] for each in found] == ([lacking] if lacking else [])


def test_nothing_is_told_while_pods_cannot_be_read():
    grown = running("grown", "5")
    assert told(grown) != []
    assert told(grown, namespace="ml") == []
    assert told(grown, gaps=(UnreadResource(resource="pods", why="forbidden"),)) == []
