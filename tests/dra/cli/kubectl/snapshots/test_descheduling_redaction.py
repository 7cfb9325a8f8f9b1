"""A bundle has what a round of descheduling reads, and neither images nor names of volumes."""

import gzip

import msgspec
import pytest

from dra.cli.kubectl.snapshots import bundle_file
from dra.engine.descheduling.pods import DeschedulingPod, RunningState
from dra.engine.diagnosis.descheduling_snapshot import (
    OLDER_BUNDLE,
    REDACTED_LABELS,
    DeschedulingFacts,
    DeschedulingSnapshot,
    cluster_objects,
    missing_facts,
)
from dra.engine.diagnosis.snapshot import DiagnosedSnapshot, Snapshot
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.scheduling import SchedulerPod

SECRET = "hunter2"  # noqa: S105 - of nobody


def term(key, value, **more):
    selector = {"matchLabels": {key: value}}
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, **more}


def pod(name, *, labels, image="registry/app:1", **spec):
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": image, "env": []}], **spec},
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": "c",
                        "restartCount": 12,
                        "state": {"running": {"startedAt": SECRET}},
                        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "message": SECRET}},
                    }
                ],
            },
        },
        DeschedulingPod,
    )


@pytest.fixture
def taken():
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("app", "web")]}}
    near = term("tier", "db", namespaceSelector={"matchLabels": {"team": "red"}})
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    spread = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["hash"]}]
    volumes = [
        {"name": "d", "persistentVolumeClaim": {"claimName": f"{SECRET}-claim"}},
        {"name": "s", "secret": {"secretName": SECRET}},
        {"name": "e", "emptyDir": {"medium": "Memory"}},
        {"name": "h", "hostPath": {"path": f"/{SECRET}"}},
    ]
    facts = msgspec.convert(
        {
            "namespaces": {"shop": {"team": "red", "note": SECRET, "kubernetes.io/metadata.name": "shop"}},
            "volumes": [{"metadata": {"name": f"{SECRET}-volume"}, "spec": {"nodeAffinity": {}}}],
            "volumeClaims": [
                {
                    "metadata": {"name": f"{SECRET}-claim", "namespace": "shop", "annotations": {"x": SECRET}},
                    "spec": {"volumeName": f"{SECRET}-volume"},
                }
            ],
            "replicas": [
                {"namespace": "shop", "group": "apps", "kind": "ReplicaSet", "name": "web", "uid": "u", "replicas": 3}
            ],
        },
        DeschedulingFacts,
    )
    return DeschedulingSnapshot(
        pods=(
            pod("a", labels={"app": "web", "hash": "1", "note": SECRET}, affinity=anti, volumes=volumes),
            pod("b", labels={"app": "web", "hash": "2"}, topologySpreadConstraints=spread),
            pod("c", labels={"app": SECRET}, image=f"registry/{SECRET}", affinity=affinity),
        ),
        descheduling=facts,
    )


@pytest.fixture
def read(taken, tmp_path):
    bundle_file.write_bundle(taken, tmp_path / "b.tgz")
    return bundle_file.read_descheduling_bundle(tmp_path / "b.tgz")


def test_no_secret_is_in_the_bundle(taken, tmp_path):
    assert SECRET in msgspec.json.encode(taken).decode()  # the test could fail
    bundle_file.write_bundle(taken, tmp_path / "b.tgz")
    assert SECRET not in gzip.decompress((tmp_path / "b.tgz").read_bytes()).decode()


def test_equal_images_stay_equal_and_different_ones_different(read):
    images = [each.spec.containers[0].image for each in read.pods]
    assert images[0] == images[1] != images[2]
    assert "" not in images


def test_constraints_still_select_the_same_pods(taken, read):
    for before, after in zip(taken.pods, read.pods, strict=True):
        assert before.spec.affinity == after.spec.affinity
        assert before.spec.topology_spread_constraints == after.spec.topology_spread_constraints
    selector = read.pods[0].spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution[0]
    assert [selector.label_selector.selects(each.metadata.labels) for each in read.pods] == [True, True, False]
    assert [each.metadata.labels.get("hash") == "2" for each in read.pods] == [False, True, False]
    assert read.descheduling.namespaces == {"shop": {"team": "red", "kubernetes.io/metadata.name": "shop"}}


def test_a_pod_still_leads_to_its_volume(read):
    (claim,) = read.descheduling.volume_claims
    (volume,) = read.descheduling.volumes
    kinds = read.pods[0].spec.volumes
    assert kinds[0].persistent_volume_claim == {"claimName": claim.metadata.name}
    assert claim.spec.volume_name == volume.metadata.name
    assert [each.empty_dir is not None for each in kinds] == [False, True, False]
    assert [each.host_path is not None for each in kinds] == [False, False, True]


def test_restarts_and_the_reasons_of_containers_stay(read):
    (status,) = read.pods[0].status.container_statuses
    assert (status.restart_count, status.last_state.terminated.reason) == (12, "OOMKilled")
    assert status.state.running == RunningState()


def test_other_commands_read_the_same_bundle_without_these_fields(taken, tmp_path):
    bundle_file.write_bundle(taken, tmp_path / "b.tgz")
    found = bundle_file.read_bundle(tmp_path / "b.tgz")
    assert type(found) is DiagnosedSnapshot
    assert {type(each) for each in found.pods} == {DiagnosedPod}


def test_a_bundle_of_an_older_version_says_what_it_lacks(taken, tmp_path):
    older = Snapshot(pods=tuple(msgspec.convert(msgspec.to_builtins(each), SchedulerPod) for each in taken.pods))
    bundle_file.write_bundle(older, tmp_path / "b.tgz")
    found = bundle_file.read_descheduling_bundle(tmp_path / "b.tgz")
    assert list(missing_facts(found, bundled=True)) == [OLDER_BUNDLE]
    assert len(cluster_objects(found).pods) == 3


@pytest.mark.parametrize(("bundled", "told"), [(True, [REDACTED_LABELS]), (False, [])], ids=["bundle", "cluster"])
def test_a_bundle_says_that_selectors_of_the_configuration_may_miss_pods(taken, bundled, told):
    assert list(missing_facts(taken, bundled=bundled)) == told


def test_the_objects_of_a_round_have_the_replicas_under_the_keys_that_pods_name(read):
    ((key, replicas),) = cluster_objects(read).replicas.items()
    assert (str(key), key.group, key.uid, replicas) == ("ReplicaSet shop/web", "apps", "u", 3)
