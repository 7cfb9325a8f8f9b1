"""The steps of a bind: what is held afterwards, and when it is refused."""

import msgspec
import pytest
from msgspec.structs import replace

from dra.engine.reservations.placeholders import PRIORITY_CLASS
from dra.engine.scheduling import bindings, verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.status_updates import AddOwner, WriteRefusedError
from dra.model.pods import PodResourceClaim
from tests.dra.engine.scheduling.examples import NODE, owner, placeholder, pod, reservation

NINE = {"name": "c", "resources": {"requests": {"cpu": "9"}}}
OWNED = [{"labelSelector": {"matchLabels": {"app": "web"}}}]


def pending(**spec):
    made = reservation(owners=OWNED, **spec)
    made.content["status"] = {}
    return made


def cache_of(*reservations):
    cache = SchedulerCache()
    cache.observe_node(NODE)
    for each in reservations:
        cache.observe_reservation(each)
    return cache


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        pytest.param(owner("p"), None, id="pending"),
        pytest.param(None, "it is gone", id="gone"),
        pytest.param(owner("other"), "it is gone", id="replaced"),
        pytest.param(pod(), "it is bound to node n1 already", id="bound"),
    ],
)
def test_only_a_pending_pod_is_bound(found, refused):
    if refused is None:
        assert bindings.check_unbound(found, "uid-p") is found
    else:
        with pytest.raises(WriteRefusedError, match=refused):
            bindings.check_unbound(found, "uid-p")


@pytest.mark.parametrize(
    ("server", "forgets"),
    [
        pytest.param("v1.34.2", False, id="before"),
        pytest.param("v1.35.0", False, id="kube-scheduler-may-be-one-version-older"),
        pytest.param("v1.36.1", True, id="since"),
        pytest.param("v1.37.2-gke.100", True, id="with-a-suffix"),
        pytest.param("v2.0.0", True, id="next-major-version"),
        pytest.param("", False, id="unknown"),
    ],
)
def test_which_schedulers_forget_a_pod_that_is_deleted_unbound(server, forgets):
    assert bindings.forgets_deleted_pods(server) is forgets


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({}, False, id="deleted-right-after"),
        pytest.param({"priority_class_name": PRIORITY_CLASS}, True, id="stays"),
        pytest.param({"resource_claims": [PodResourceClaim(name="gpu")]}, True, id="has-claims"),
    ],
)
def test_which_placeholders_are_bound_in_any_case(spec, needed):
    made = placeholder()
    made = replace(made, spec=replace(made.spec, **spec))
    assert bindings.needs_binding(cache_of(reservation()), made) is needed
    assert bindings.needs_binding(cache_of(), made)


@pytest.mark.parametrize(
    ("cache", "made", "reservation_uid"),
    [
        pytest.param(cache_of(), owner("p"), None, id="on-the-node"),
        pytest.param(cache_of(reservation(owners=OWNED)), owner("p"), "uid-r", id="in-its-reservation"),
        pytest.param(cache_of(reservation()), pod(node="", name="p"), "refused", id="more-than-is-left"),
        pytest.param(cache_of(), owner("p", cpu="9"), "refused", id="more-than-the-node-has"),
    ],
)
def test_an_assumed_pod_is_counted_and_a_refused_one_is_not(cache, made, reservation_uid):
    if reservation_uid == "refused":
        with pytest.raises(WriteRefusedError, match="Insufficient cpu"):
            bindings.assume_pod(cache, made, "n1")
        assert cache.accounting.assignment("uid-p") is None
    else:
        assert bindings.assume_pod(cache, made, "n1").reservation == reservation_uid
        assert cache.accounting.assignment("uid-p").assumed


def test_a_pod_whose_reservation_was_taken_since_it_was_scored_is_scheduled_again_once():
    cache = cache_of(reservation(owners=OWNED))
    for name in ("fast", "slow"):
        verbs.prioritize_nodes(cache, owner(name), ["n1"])
    bindings.assume_pod(cache, owner("fast"), "n1")
    with pytest.raises(WriteRefusedError, match="another pod has taken the reservation"):
        bindings.assume_pod(cache, owner("slow"), "n1")
    assert cache.accounting.assignment("uid-slow") is None
    assert bindings.assume_pod(cache, owner("slow"), "n1").reservation is None


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(reservation(owners=OWNED), AddOwner, id="allocate-once"),
        pytest.param(reservation(owners=OWNED, allocateOnce=False), None, id="shared-amounts"),
        pytest.param(None, None, id="no-reservation"),
    ],
)
def test_a_status_names_the_pod_first_where_owners_do_not_share_amounts(made, expected):
    cache = cache_of(*([made] if made is not None else []))
    binding = bindings.assume_pod(cache, owner(), "n1")
    assert bindings.owner_update(cache, binding) == (AddOwner(binding.pod) if expected else None)


def test_a_reservation_that_ends_during_the_bind_refuses_the_pod():
    cache = cache_of(reservation(owners=OWNED, allocateOnce=False))
    binding = bindings.assume_pod(cache, owner(), "n1")
    ended = reservation(owners=OWNED, allocateOnce=False, phase="Failed")
    newer = msgspec.structs.replace(ended.metadata, resource_version="6")
    cache.observe_reservation(msgspec.structs.replace(ended, metadata=newer))
    with pytest.raises(WriteRefusedError, match="is not available any more"):
        bindings.owner_update(cache, binding)


@pytest.mark.parametrize(
    ("cache", "node", "expected"),
    [
        pytest.param(cache_of(pending()), "n1", "place", id="pending"),
        pytest.param(cache_of(reservation()), "n1", "placed", id="on-this-node"),
        pytest.param(cache_of(reservation()), "n2", "its reservation is on node n1 already", id="on-another-node"),
        pytest.param(cache_of(), "n1", "the placeholder's Reservation was deleted", id="deleted"),
    ],
)
def test_the_bind_of_a_placeholder_places_its_reservation(cache, node, expected):
    assert bindings.is_placeholder(placeholder())
    if expected in ("place", "placed"):
        known = bindings.reservation_to_place(cache, placeholder(), node)
        assert (known is not None) == (expected == "place")
    else:
        with pytest.raises(WriteRefusedError, match=expected):
            bindings.reservation_to_place(cache, placeholder(), node)


def test_an_assumed_reservation_holds_its_node_until_the_placement_has_ended():
    cache = cache_of(pending())
    known = cache.reservation("uid-r")
    update = bindings.assume_reservation(cache, known, "n1")
    assert (update.info.node, update.pods) == ("n1", ())
    assert bindings.assume_reservation(cache, known, "n1") == update
    with pytest.raises(WriteRefusedError, match="is being placed on node n1"):
        bindings.assume_reservation(cache, known, "n2")
    cache.forget_assumed_reservation("uid-r")
    assert not cache.accounting.reservation("uid-r").available


@pytest.mark.parametrize(
    ("template", "refused"),
    [
        pytest.param({"containers": [NINE]}, "Insufficient cpu", id="more-than-the-node-has"),
        pytest.param({"nodeName": "n9", "containers": [NINE]}, "nodeName specified", id="for-another-node"),
    ],
)
def test_a_reservation_that_does_not_fit_is_refused(template, refused):
    cache = cache_of(pending(template={"spec": template}))
    with pytest.raises(WriteRefusedError, match=refused):
        bindings.assume_reservation(cache, cache.reservation("uid-r"), "n1")
    assert "uid-r" not in cache.assumed
