from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import PODS
from dra.kube.store import Deleted, Upserted
from dra.model.meta import ObjectMeta, OwnerReference, Uid
from localplane.controller_manager.api_types import Pod
from localplane.controller_manager.informer import Informer
from tests.dra.kube.virtual import LoopClock, seeded


def pod(version, *, uid="u", name="p", owner="o"):
    owners = [OwnerReference(kind="Job", name="j", uid=Uid(owner), controller=True)] if owner else None
    meta = ObjectMeta(
        name=name, namespace="default", uid=Uid(uid), resource_version=str(version), owner_references=owners
    )
    return Pod(metadata=meta)


class Watched:
    def __init__(self):
        clock = LoopClock()
        client = Client(None, RateLimiter(1.0, 1.0, clock=clock), clock=clock)
        self.informer = Informer(client, PODS, Pod, clock=clock, random=seeded(1))
        self.notified = []
        self.informer.add_event_handler(
            lambda obj, *, deleted: self.notified.append((obj.metadata.resource_version, deleted))
        )

    @property
    def controlled(self):
        return [each.metadata.resource_version for each in self.informer.controlled_by(Uid("o"))]


def test_answers_to_own_writes_count_at_once_and_their_echo_is_no_news():
    watched = Watched()
    watched.informer.observe(pod(5))
    watched.informer.handle([Upserted(pod(4)), Upserted(pod(5))])
    assert watched.notified == [("5", False)]
    assert watched.controlled == ["5"]


def test_what_is_gone_stays_gone():
    watched = Watched()
    watched.informer.observe(pod(5))
    watched.informer.handle([Deleted(pod(6), certain=True)])
    watched.informer.observe(pod(7))
    assert not watched.informer.objects
    assert watched.controlled == []
    assert watched.notified == [("5", False), ("5", True)]


def test_another_object_of_the_same_name_replaces_the_one_before():
    watched = Watched()
    watched.informer.observe(pod(5))
    watched.informer.observe(pod(9, uid="other"))
    assert watched.notified == [("5", False), ("5", True), ("9", False)]
    watched.informer.observe(pod(6))
    assert watched.controlled == ["9"]


def test_a_pod_that_was_asked_to_go_is_not_active_before_its_watch_tells():
    watched = Watched()
    watched.informer.observe(pod(5))
    watched.informer.mark_deleting(pod(5), "2026-11-20T12:00:00Z")
    [known] = watched.informer.controlled_by(Uid("o"))
    assert not known.active


def test_an_object_that_is_released_has_no_owner():
    watched = Watched()
    watched.informer.observe(pod(5))
    watched.informer.observe(pod(6, owner=""))
    assert watched.controlled == []
    assert watched.informer.get(("default", "p")).metadata.resource_version == "6"
