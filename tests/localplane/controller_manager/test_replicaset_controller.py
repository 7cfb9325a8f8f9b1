"""The order in which a ReplicaSet's surplus pods are deleted."""

import pytest

from dra.model.meta import ObjectMeta
from localplane.controller_manager.api_types import Condition, Pod, PodSpec, PodStatus
from localplane.controller_manager.replicaset_controller import deletion_rank

READY = [Condition(type="Ready", status="True")]


def pod(name, *, minute=0, node="n", phase="Running", ready=True):
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ml", creation_timestamp=f"2026-01-01T00:{minute:02}:00Z"),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, conditions=READY if ready else None),
    )


@pytest.mark.parametrize(
    ("pods", "first"),
    [
        pytest.param([pod("old", minute=1), pod("young", minute=2)], "young", id="the-youngest"),
        pytest.param([pod("bound"), pod("pending", node="", phase="Pending", ready=False)], "pending", id="not-bound"),
        pytest.param([pod("running"), pod("starting", phase="Pending", ready=False)], "starting", id="not-running"),
        pytest.param([pod("ready"), pod("unready", ready=False)], "unready", id="not-ready"),
    ],
)
def test_the_least_progressed_and_then_the_youngest_pod_is_deleted_first(pods, first):
    assert min(pods, key=deletion_rank).metadata.name == first
    assert min(reversed(pods), key=deletion_rank).metadata.name == first
