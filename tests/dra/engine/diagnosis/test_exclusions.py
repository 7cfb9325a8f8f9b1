"""A request that no device can satisfy is told with the selector that excludes, and in every answer alike."""

import pytest

from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.exclusions import EXAMINED_MAX
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.snapshot import UnreadResource
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, cluster_state, node, offer, pod, snapshot

H100 = f"device.attributes['{DRIVER}'].model == 'h100'"
NODES = [node("n1"), node("n2")]


def sims(on, *, devices=3, **pool):
    found = offer(on, devices, **pool)
    for each in found["spec"]["devices"]:
        each["attributes"] = {"model": {"string": "sim-1"}}
    return found


def wanting(*expressions, count=1, name="c"):
    found = claim(name, count=count)
    found["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": e}} for e in expressions]
    return found


SIMS = [sims("n1"), sims("n2")]
DUPLICATES = offer("n1")
DUPLICATES["spec"]["devices"].append({"name": "gpu-0"})


@pytest.mark.parametrize(
    ("asked", "slices", "error"),
    [
        pytest.param(
            wanting(H100),
            SIMS,
            f"request gpu: its selector excludes all 6 devices of class {DRIVER}: {H100}; model is sim-1",
            id="a-selector-excludes-all",
        ),
        pytest.param(
            wanting(f"device.driver == '{DRIVER}'", "device.driver == 'other'"),
            SIMS,
            f"request gpu: its selector excludes all 6 devices of class {DRIVER}: device.driver == 'other'; "
            f"driver is {DRIVER}",
            id="the-second-selector-excludes-all",
        ),
        pytest.param(
            wanting(f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('80Gi'))"),
            SIMS,
            f"request gpu: its selector excludes all 6 devices of class {DRIVER}: "
            f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('80Gi')); memory is absent",
            id="a-capacity-that-no-device-has",
        ),
        pytest.param(
            wanting(),
            [sims("n1", resourceSliceCount=2), sims("n2", resourceSliceCount=2)],
            "request gpu: the devices that it selects cannot be allocated: "
            f"pool {DRIVER}/n1: 1 of 2 slices of generation 1 exist; "
            f"pool {DRIVER}/n2: 1 of 2 slices of generation 1 exist",
            id="all-pools-are-incomplete",
        ),
        pytest.param(
            wanting(),
            [DUPLICATES],
            "request gpu: the devices that it selects cannot be allocated: "
            f"pool {DRIVER}/n1: it has several devices of one name: gpu-0",
            id="the-only-pool-is-invalid",
        ),
        pytest.param(
            wanting(count=4),
            SIMS,
            "request gpu wants 4 devices, and no node has more than 3",
            id="more-than-any-node-has",
        ),
    ],
)
def test_pod_claim_and_audit_say_alike_why_no_device_satisfies_a_request(asked, slices, error):
    state = cluster_state(asked, pods=(pod("a", "c"),), slices=slices, nodes=NODES)
    of_pod, of_claim = pods.explain(state, ("ml", "a")).problems, claims.explain(state, ("ml", "c")).problems
    for problems in (of_pod, of_claim, audit(state)):
        found = [each.facts_by_name["error"] for each in problems if each.code is ProblemCode.UNSATISFIABLE]
        assert found == [error]


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        pytest.param(wanting(), {"slices": SIMS}, id="devices-that-are-free"),
        pytest.param(
            wanting(), {"slices": [sims("n1", resourceSliceCount=2), sims("n2")]}, id="one-of-two-pools-is-complete"
        ),
    ],
)
def test_a_request_that_some_device_satisfies_is_not_impossible(asked, more):
    state = cluster_state(asked, pods=(pod("a", "c"),), nodes=NODES, **more)
    assert claims.explain(state, ("ml", "c")).problems == ()


def test_nothing_is_concluded_from_slices_that_were_not_read():
    found = snapshot(wanting(H100), pods=(pod("a", "c"),), slices=[{"metadata": {"name": "x"}}], nodes=NODES)
    gap = UnreadResource(resource="resourceslices.resource.k8s.io", why="no right")
    state = type(cluster_state())(type(found)(**{**_fields(found), "slices": (), "gaps": (gap,)}))
    assert claims.explain(state, ("ml", "c")).problems == ()


def _fields(found):
    return {name: getattr(found, name) for name in found.__struct_fields__}


def test_so_many_different_selectors_are_examined_and_no_more():
    asked = [wanting(f"device.driver == 'other-{n}'", name=f"c{n}") for n in range(EXAMINED_MAX + 5)]
    waiting = tuple(pod(f"a{n}", f"c{n}") for n in range(EXAMINED_MAX + 5))
    state = cluster_state(*asked, pods=waiting, slices=SIMS, nodes=NODES)
    assert sum(each.code is ProblemCode.UNSATISFIABLE for each in audit(state)) == EXAMINED_MAX
