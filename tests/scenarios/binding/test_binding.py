"""The extender binds pods that share a claim; kube-scheduler binds them while the extender does not answer."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import Process
from tests.scenarios import objects, steps
from tests.scenarios.binding.conftest import SHARED
from tests.scenarios.claims import bound, entries, revision
from tests.scenarios.eventually import eventually
from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.requests_seen import AuditLog
from tests.scenarios.reservations.conftest import NODES
from tests.scenarios.resources import PODS
from tests.scenarios.target import Capability

pytestmark = pytest.mark.needs(Capability.COMPONENTS)

SCHEDULER: Final = "system:kube-scheduler"
EXTENDER: Final = "system:serviceaccount:dra-reserve:dra-reserve-extender"
MORE: Final = 5
VOLUME: Final = f"""
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: late}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: late}}
spec:
  storageClassName: late
  accessModes: [ReadWriteOnce]
  capacity: {{storage: 1Gi}}
  local: {{path: /data}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{NODES[1]}]}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  storageClassName: late
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 1Gi}}}}
"""


async def test_pods_that_share_a_claim_are_bound_by_the_extender_after_they_and_the_workload_are_listed(
    extender: Process, shared: Namespace, audited: AuditLog
) -> None:
    assert extender.alive
    async with shared.history("shared") as claim, WatchHistory(shared.api, PODS, namespace=shared.name) as pods:
        await shared.create_all(objects.pods("more", MORE, SHARED))
        await steps.pods_run(shared, count=MORE + 1)
    for name in pods.names() - {"first"}:
        at = next(version.object for version in pods.only(name).versions if bound(version.object))
        before = [one.object for one in claim.versions if int(revision(one.object)) < int(revision(at))]
        assert {("jobs", "train"), ("pods", name)} <= {
            (entry["resource"], entry["name"]) for entry in entries(before[-1])
        }

    async def counted() -> tuple[Counter[str], Counter[str]]:
        of = {"namespace": shared.name, "names": "more"}
        return audited.succeeded(SCHEDULER, **of), audited.succeeded(EXTENDER, **of)

    scheduler, binder = await eventually(
        counted, until=lambda both: both[0]["create events"] == MORE, saying="the scheduler has written its Events"
    )
    nominations = {"patch pods/status": MORE} if Feature.NOMINATION.among(kubernetes_version()) else {}
    assert scheduler == {"create events": MORE} | nominations
    assert binder == {"create pods/binding": MORE}


async def test_a_pod_is_bound_by_the_extender_after_its_volume_is(
    cluster: Cluster, extender: Process, namespace: Namespace, audited: AuditLog
) -> None:
    """The volume waits for the first consumer, whose node kube-scheduler writes before anybody binds the pod."""
    assert extender.alive
    kubectl("apply", "--filename=-", f"--namespace={namespace.name}", kubeconfig=cluster.admin_kubeconfig, stdin=VOLUME)
    spec = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    await namespace.create(objects.pod("with-volume", PodShape(spec=spec)))
    await steps.pods_run(namespace, "with-volume")
    assert (await namespace.get(PODS, "with-volume"))["spec"]["nodeName"] == NODES[1]
    assert audited.succeeded(EXTENDER, namespace=namespace.name, names="with-volume") == {"create pods/binding": 1}


async def test_pods_are_bound_by_the_scheduler_while_the_extender_is_gone(
    extender: Process, shared: Namespace, audited: AuditLog
) -> None:
    extender.stop()
    await shared.create_all(objects.pods("gone", MORE, SHARED))
    await steps.pods_run(shared, count=MORE + 1)
    assert audited.succeeded(SCHEDULER, namespace=shared.name, names="gone")["create pods/binding"] == MORE
    extender.start()
    await shared.create(objects.pod("again", SHARED))
    await steps.pods_run(shared, "again")
    assert audited.succeeded(EXTENDER, namespace=shared.name, names="again") == {"create pods/binding": 1}


async def test_pods_are_bound_once_when_the_extender_answers_after_the_scheduler_has_given_up(
    extender: Process, shared: Namespace, audited: AuditLog
) -> None:
    extender.freeze()
    await shared.create_all(objects.pods("late", MORE, SHARED))
    await steps.pods_run(shared, count=MORE + 1)
    assert audited.succeeded(SCHEDULER, namespace=shared.name, names="late")["create pods/binding"] == MORE
    extender.thaw()
    await shared.create(objects.pod("again", SHARED))
    await steps.pods_run(shared, "again")
    late = [audited.succeeded(user, namespace=shared.name, names="late") for user in (SCHEDULER, EXTENDER)]
    assert [counts["create pods/binding"] for counts in late] == [MORE, 0]
