"""Who has which device, and whether that can be known."""

import msgspec
import pytest

from dra.cli.kubectl.diagnosis.get import device_row
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.engine.diagnosis.snapshot import UnreadResource
from tests.dra.engine.diagnosis.cluster_states import claim, rule, snapshot

NARROWED = (
    UnreadResource(resource="resourceclaims.resource.k8s.io of other namespaces", why="no permission to list them"),
)


@pytest.mark.parametrize(
    ("gaps", "held", "other"),
    [
        pytest.param((), "Held", "Free", id="all-claims-were-read"),
        pytest.param(NARROWED, "Held", "Unknown", id="claims-of-one-namespace-only"),
        pytest.param(
            (UnreadResource(resource="nodes", why="no right"),), "Held", "Free", id="something-else-could-not-be-read"
        ),
    ],
)
def test_a_device_is_free_only_if_all_claims_could_be_read(gaps, held, other):
    found = msgspec.structs.replace(snapshot(claim("c", "n1/gpu-0")), gaps=gaps)
    states = {str(each.item): device_row(each).cells[-1] for each in devices(ClusterState(found))}
    assert states["gpu.example.com/n1/gpu-0"] == held
    assert states["gpu.example.com/n1/gpu-1"] == other


def test_a_device_is_listed_with_the_taints_of_device_taint_rules():
    cluster = ClusterState(snapshot(rules=[rule(pool="n1", device="gpu-0")]))
    tainted = {str(each.item): each.taints for each in devices(cluster) if each.taints}
    assert tainted == {"gpu.example.com/n1/gpu-0": ("service:NoSchedule",)}
