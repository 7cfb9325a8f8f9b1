"""Which pods of a node a migration can move."""

import msgspec
import pytest

from dra.engine.migration.node_pods import StayReason, select_pods, stay_reason
from dra.engine.migration.view import MigrationPod
from tests.violations import for_each_case


def pod(name="web", *, owner="ReplicaSet", controller=True, phase="Running", deleting=False, **annotations):
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": controller}]
    metadata = {"name": name, "namespace": "shop", "annotations": annotations, "ownerReferences": owners}
    if not owner:
        del metadata["ownerReferences"]
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-24T12:00:00Z"
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, MigrationPod)


MIRROR = {"kubernetes.io/config.mirror": "x"}


@for_each_case(
    [
        pytest.param(pod(), None, id="of-a-replicaset"),
        pytest.param(pod(phase="Pending"), None, id="pending"),
        pytest.param(pod(owner="DaemonSet"), StayReason.DAEMON_SET, id="of-a-daemonset"),
        pytest.param(pod(owner=""), StayReason.BARE, id="bare"),
        pytest.param(pod(controller=False), StayReason.BARE, id="an-owner-that-is-no-controller"),
        pytest.param(pod(owner="Node", **MIRROR), StayReason.MIRROR, id="static"),
        pytest.param(pod(phase="Succeeded"), StayReason.FINISHED, id="succeeded"),
        pytest.param(pod(phase="Failed", deleting=True), StayReason.FINISHED, id="failed"),
        pytest.param(pod(deleting=True), StayReason.TERMINATING, id="ending"),
    ]
)
def test_the_reason_for_a_pod_to_stay(given, reason):
    assert stay_reason(given) is reason


def test_pods_are_parted_in_the_given_order():
    found = [pod("a"), pod("b", owner=""), pod("c"), pod("d", owner="DaemonSet")]
    migrated, staying = select_pods(found)
    assert [each.metadata.name for each in migrated] == ["a", "c"]
    assert [(each.pod.metadata.name, each.reason) for each in staying] == [
        ("b", StayReason.BARE),
        ("d", StayReason.DAEMON_SET),
    ]
