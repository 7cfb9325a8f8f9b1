"""What the extender believes, whatever it is told first and whatever it cannot read."""

import msgspec
import pytest

from controller.extender.picture import Picture
from dra.model.meta import DynamicObject, ObjectMeta, Uid
from dra.model.placement import Host, PlacedPod
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.reservations.examples import of

NODE = msgspec.convert(
    {"metadata": {"name": "n1", "uid": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}},
    Host,
)


def pod(name="p", *, node="n1", **status):
    container = {"name": "c", "resources": {"requests": {"cpu": "6"}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "5"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}, "status": status}, PlacedPod
    )


def reservation(*, uid="uid-r", phase="Available", **spec):
    content = manifest(**spec) | {"status": {"phase": phase, "nodeName": "n1", "allocatable": {"cpu": "5"}}}
    content["metadata"] |= {"uid": uid, "resourceVersion": "5"}
    meta = ObjectMeta(name=content["metadata"]["name"], uid=Uid(uid), resource_version="5")
    return DynamicObject(metadata=meta, content=content)


@pytest.fixture
def picture():
    return Picture()


def free(picture):
    return picture.books.room("n1").free("cpu")


def test_a_pod_that_is_seen_before_the_first_node_takes_what_it_asks_for(picture):
    picture.observe_pod(pod())
    picture.observe_node(NODE)
    assert free(picture) == of(2)["cpu"]


def test_a_reservation_that_never_could_be_read_holds_what_its_status_says(picture):
    """A new process sees it for the first time: what it holds was promised by the one before."""
    picture.observe_node(NODE)
    picture.observe_reservation(reservation(nonsense=True))
    assert free(picture) == of(3)["cpu"]
    picture.forget_reservation(Uid("uid-r"))
    assert free(picture) == of(8)["cpu"]


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Succeeded"])
def test_a_reservation_that_cannot_be_read_and_has_no_place_holds_nothing(picture, phase):
    picture.observe_node(NODE)
    picture.observe_reservation(reservation(nonsense=True, phase=phase))
    assert free(picture) == of(8)["cpu"]


def test_what_could_not_be_read_holds_what_it_says_once_it_can(picture):
    picture.observe_node(NODE)
    picture.observe_reservation(reservation(nonsense=True))
    picture.observe_reservation(reservation())
    assert picture.reservation(Uid("uid-r")) is not None
    assert free(picture) == of(3)["cpu"]
