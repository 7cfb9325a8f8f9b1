import msgspec
import pytest

from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.migration import pod_memory
from dra.engine.migration.pod_memory import SharedParts, drop_unread
from dra.engine.migration.view import MigrationPod, MigrationPodSpec, MigrationPodStatus
from dra.model.pods import PodSpec, PodStatus

SPEC = {
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "priority": 5,
    "schedulerName": "other",
    "priorityClassName": "high",
    "volumes": [{"emptyDir": {}}],
}
READ_SPEC = {"scheduler_name", "priority_class_name", "preemption_policy"}
READ_STATUS = {"qos_class"}


def given(name="web", *, form=DeschedulingPod, cpu="1"):
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    content = {"metadata": {"name": name, "namespace": "ns"}, "spec": {**SPEC, "containers": containers}}
    return msgspec.convert(content, form)


def test_migrations_keep_what_they_read():
    kept = given(form=MigrationPod)
    drop_unread(kept)
    assert (kept.spec.containers, kept.spec.tolerations) == (None, None)
    assert (kept.spec.priority, kept.spec.scheduler_name, kept.spec.priority_class_name) == (5, "other", "high")
    assert kept.spec.volumes[0].empty_dir == {}


@pytest.mark.parametrize(
    ("form", "base", "read", "unread"),
    [
        pytest.param(MigrationPodSpec, PodSpec, READ_SPEC, pod_memory._UNREAD_SPEC, id="spec"),
        pytest.param(MigrationPodStatus, PodStatus, READ_STATUS, pod_memory._UNREAD_STATUS, id="status"),
    ],
)
def test_every_field_of_schedulers_is_read_or_dropped(form, base, read, unread):
    """A new field of pods would otherwise take memory in each process that only migrates."""
    assert set(form.__struct_fields__) - set(base.__struct_fields__) == read | unread.keys()
    assert all(getattr(form(), name) == nothing for name, nothing in unread.items())


def test_pods_of_one_workload_share_what_they_have_alike():
    parts, first, second = SharedParts(), given("a"), given("b")
    before = msgspec.json.encode(second)
    for one in (first, second):
        parts.share(one)
    assert second.spec.containers is first.spec.containers
    assert second.spec.tolerations is first.spec.tolerations
    assert msgspec.json.encode(second) == before


def test_labels_and_owners_are_shared_and_told_apart():
    content = {
        "metadata": {"labels": {"app": "web"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web"}]},
        "spec": {"nodeName": "n1", "nodeSelector": {"app": "web"}},
    }
    encoded = msgspec.json.encode(content)
    parts, first, second = SharedParts(), *(msgspec.json.decode(encoded, type=DeschedulingPod) for _ in range(2))
    for one in (first, second):
        parts.share(one)
    assert second.metadata.labels is first.metadata.labels
    assert second.metadata.labels is not second.spec.node_selector
    assert second.metadata.owner_references is first.metadata.owner_references
    assert second.spec.node_name is first.spec.node_name
    assert second == msgspec.json.decode(encoded, type=DeschedulingPod)


def test_what_differs_is_not_shared():
    parts, first, second = SharedParts(), given("a"), given("b", cpu="2")
    for one in (first, second):
        parts.share(one)
    assert second.spec.containers[0].resources.requests == {"cpu": "2"}


def test_no_more_parts_are_remembered_than_the_maximum(monkeypatch):
    """A tenant may make every pod another one."""
    monkeypatch.setattr(pod_memory, "PARTS_MAX", 3)
    parts = SharedParts()
    for number in range(20):
        parts.share(given(str(number), cpu=str(number)))
        assert len(parts) <= 3


def test_a_part_that_is_large_is_not_remembered(monkeypatch):
    monkeypatch.setattr(pod_memory, "PART_BYTES_MAX", 4)
    parts = SharedParts()
    parts.share(given())
    assert len(parts) == 0
