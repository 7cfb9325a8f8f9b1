"""What kube-scheduler is told when it asks whom to end for a pod."""

from controller.extender import advice
from controller.extender.picture import Picture
from controller.extender.wire import MetaPod, MetaVictims
from tests.controller.extender.examples import NODE, pod, reservation

VICTIM = pod("victim")


def asked():
    """The scheduler would end the pod on its node."""
    return {"n1": MetaVictims(pods=[MetaPod(uid=VICTIM.metadata.uid)])}


def seen(*others):
    picture = Picture()
    picture.observe_node(NODE)
    picture.observe_pod(VICTIM)
    for each in others:
        picture.observe_reservation(each)
    return picture


def test_nobody_is_ended_for_room_that_is_held_for_others():
    assert advice.worthwhile(seen(reservation()), pod("urgent", node=""), asked()) == {}


def test_what_they_free_is_the_pod_s_as_soon_as_it_is_nominated():
    picture = seen()
    assert advice.worthwhile(picture, pod("urgent", node=""), asked()) == asked()
    picture.observe_pod(pod("urgent", node="", nominatedNodeName="n1"))
    picture.forget_pod(VICTIM)
    assert picture.books.filter(picture.claimant(pod("thief", node=""))) == ()
    assert picture.books.filter(picture.claimant(pod("urgent", node=""))) == ("n1",)
