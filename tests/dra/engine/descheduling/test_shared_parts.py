import msgspec

from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.shared_parts import SharedParts
from tests.dra.engine.descheduling.clusters import pod


def decoded(name, **fields):
    return msgspec.json.decode(msgspec.json.encode(pod(name, **fields)), type=DeschedulingPod)


def test_pods_of_a_workload_share_what_is_equal_and_stay_the_same():
    parts = SharedParts()
    toleration = [{"key": "a", "operator": "Exists"}]
    one, other = (parts.share(decoded(name, tolerations=toleration)) for name in ("p1", "p2"))
    assert one == decoded("p1", tolerations=toleration)
    assert other == decoded("p2", tolerations=toleration)
    assert one.spec.containers is other.spec.containers
    assert one.spec.tolerations is other.spec.tolerations
    assert one.metadata.labels is other.metadata.labels
    assert one.metadata.owner_references is other.metadata.owner_references
    assert one.spec.node_name is other.spec.node_name


def test_parts_of_different_fields_are_told_apart():
    parts = SharedParts()
    given = decoded("p", metadata={"annotations": {"app": "web"}, "labels": {"app": "web"}})
    shared = parts.share(decoded("p", metadata={"annotations": {"app": "web"}, "labels": {"app": "web"}}))
    assert shared == given
