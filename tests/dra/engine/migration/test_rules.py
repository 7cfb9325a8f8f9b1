"""The rules about a single job, each with the outcome that users see."""

import pytest

from dra.api.descheduler_configuration import MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy
from dra.engine.migration.decide import decide
from dra.engine.migration.plan import CreateReservation, DeleteJob, DeleteReservation, EvictPod, ReadPod
from dra.engine.migration.view import ClaimReach, JobView, unreadable_job
from dra.engine.reservations.lifecycle import CLAIMS_UNSUPPORTED_MESSAGE
from tests.dra.engine.migration.world import (
    JOB_UID,
    NEW_NODE,
    NOON,
    OLD_NODE,
    World,
    job,
    pod,
    reservation,
    timestamp,
)


def supplied(**parts):
    return {"spec": {"reservationOptions": {"reservationRef": {"name": "kept"}}, **parts}}


def by_template(**spec):
    return job(spec={"reservationOptions": {"template": {"spec": spec}}})


def reserved(world: World) -> World:
    """Bring a job to the point at which its Reservation exists and has no node yet."""
    world.settle()
    assert world.reservation is not None
    return world


def held(world: World) -> World:
    """Bring a job to the point at which it asks for the eviction."""
    reserved(world).place()
    world.evict_error = "too many requests"
    world.settle()
    assert world.condition("Eviction") == ("False", "Evicting")
    return world


def evicted(world: World) -> World:
    """Bring a job to the point at which its pod is gone."""
    reserved(world).place()
    world.settle()
    world.end()
    world.settle()
    assert world.condition("Eviction") == ("True", "EvictComplete")
    return world


def bound(world: World) -> World:
    """Bring a job to the point at which a pod uses its Reservation."""
    evicted(world).bind()
    world.settle()
    assert world.condition("BoundPodReady") == ("False", "WaitForBoundPodReady")
    return world


def outcome(world: World) -> tuple[str, str]:
    world.settle()
    return world.status.get("phase", ""), world.status.get("reason", "")


EXPIRED, TIMEOUT = ("Failed", "ReservationExpired"), ("Failed", "Timeout")
FORBIDDEN, MISSING = ("Failed", "ForbiddenMigratePod"), ("Failed", "MissingPod")


@pytest.mark.parametrize(
    ("given", "pods", "wanted", "text"),
    [
        pytest.param(
            job(spec={"podRef": {"namespace": "", "name": "web-a"}}),
            None,
            ("Failed", "InvalidPodRef"),
            "namespace and name are required",
            id="pod-ref-without-a-namespace",
        ),
        pytest.param(job(), [], MISSING, 'Pod "default/web-a" does not exist', id="no-pod"),
        pytest.param(job(passed=False), [], MISSING, "does not exist", id="no-pod-before-arbitration"),
        pytest.param(
            job(spec={"podRef": {"uid": "uid-before"}}), None, MISSING, "with uid uid-before", id="pod-with-another-uid"
        ),
        pytest.param(
            job(), [pod(spec={"schedulerName": "mine"})], FORBIDDEN, "mine places no Reservations", id="scheduler"
        ),
        pytest.param(
            job(),
            [pod(node="", spec={"schedulingGates": [{"name": "reserve.dra/reservation"}]})],
            FORBIDDEN,
            "scheduling gate reserve.dra/reservation",
            id="own-scheduling-gate",
        ),
        pytest.param(job(), [pod(controller=None)], FORBIDDEN, "has no controller", id="bare-pod"),
        pytest.param(
            job(),
            [pod(metadata={"deletionTimestamp": timestamp(NOON)})],
            FORBIDDEN,
            "is being deleted already",
            id="terminating-pod",
        ),
        pytest.param(job(), [pod(status={"phase": "Succeeded"})], FORBIDDEN, "has ended", id="finished-pod"),
        pytest.param(
            job(metadata={"labels": {"koordinator.sh/evict-policy": "Drain"}}),
            None,
            FORBIDDEN,
            "podmigrationjob migration: label koordinator.sh/evict-policy is none of Eviction, Delete, SoftEviction",
            id="unknown-policy-of-the-job",
        ),
        pytest.param(
            job(),
            [pod(metadata={"labels": {"koordinator.sh/evict-policy": "Drain"}})],
            FORBIDDEN,
            "pod default/web-a: label koordinator.sh/evict-policy",
            id="unknown-policy-of-the-pod",
        ),
        pytest.param(
            job(),
            [pod(metadata={"annotations": {"scheduling.koordinator.sh/reservation-affinity": '{"name": "other"}'}})],
            FORBIDDEN,
            "didn't match the requested reservation name",
            id="pod-that-requires-another-reservation",
        ),
        pytest.param(
            job(),
            [pod(metadata={"annotations": {"scheduling.koordinator.sh/reservation-affinity": "{"}})],
            FORBIDDEN,
            "annotation scheduling.koordinator.sh/reservation-affinity",
            id="pod-with-a-malformed-affinity",
        ),
        pytest.param(
            by_template(owners=[{"labelSelector": {"matchLabels": {"app": "other"}}}]),
            None,
            FORBIDDEN,
            "has no owner that matches the pod",
            id="template-with-other-owners",
        ),
        pytest.param(
            by_template(template={"spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]}}),
            None,
            FORBIDDEN,
            "Insufficient cpu, requested: 1000, used: 0, capacity: 500",
            id="template-that-is-too-small",
        ),
        pytest.param(
            by_template(unknown=1),
            None,
            ("Failed", "FailedCreateReservation"),
            "spec.reservationOptions.template",
            id="template-with-an-unknown-field",
        ),
        pytest.param(
            by_template(owners=[{"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}]),
            None,
            ("Failed", "FailedCreateReservation"),
            "spec.reservationOptions.template: spec.owners[0].labelSelector.matchExpressions[0].operator",
            id="template-with-an-invalid-selector",
        ),
        pytest.param(
            job(),
            [pod(spec={"containers": [{"name": "c"}]})],
            FORBIDDEN,
            "has none of the resources that the pod requests",
            id="pod-without-requests",
        ),
        pytest.param(
            job(**supplied()), None, ("Failed", "MissingReservation"), '"kept" does not exist', id="no-such-reservation"
        ),
    ],
)
def test_a_job_that_cannot_succeed_fails_and_reserves_nothing(given, pods, wanted, text):
    world = World(job=given, pods=pods)
    assert outcome(world) == wanted
    assert text in world.status["message"]
    assert (wanted[1], world.status["message"]) == world.events[-1]
    assert (world.reservations, world.evictions) == ({}, [])


@pytest.mark.parametrize(
    ("spec", "status", "claims", "text"),
    [
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            {},
            [ClaimReach(key=("default", "shared"), pinned_node=OLD_NODE, other_nodes=False)],
            "claim default/shared is allocated on node node-0, and no other node can use its devices; let the",
            id="named-claim-of-one-node",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            {},
            [ClaimReach(key=("default", "shared"), exists=False)],
            "claim default/shared does not exist",
            id="named-claim-that-does-not-exist",
        ),
        pytest.param(
            {
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
                "schedulingGroup": {"podGroupName": "gang"},
            },
            {},
            [],
            "its claims belong to PodGroup gang",
            id="claims-of-a-pod-group",
        ),
        pytest.param(
            {},
            {"extendedResourceClaimStatus": {"resourceClaimName": "web-a-extended"}},
            [],
            "claim web-a-extended",
            id="extended-resources",
        ),
    ],
)
def test_devices_that_no_other_node_can_provide_forbid_the_migration(spec, status, claims, text):
    world = World(pods=[pod(spec=spec, status=status)], claims=claims)
    assert outcome(world) == FORBIDDEN
    assert text in world.status["message"]


@pytest.mark.parametrize(
    ("spec", "claims"),
    [
        pytest.param({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}, [], id="template"),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]},
            [ClaimReach(key=("default", "shared"))],
            id="named-claim-that-other-nodes-can-use",
        ),
        pytest.param({"schedulingGroup": {"podGroupName": "gang"}}, [], id="pod-group-without-claims"),
    ],
)
def test_the_reservation_requests_the_devices_of_the_pod(spec, claims):
    world = reserved(World(pods=[pod(spec=spec)], claims=claims))
    made = world.reservation["spec"]["template"]["spec"]
    assert made.get("resourceClaims") == spec.get("resourceClaims")


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        pytest.param(reservation(node=OLD_NODE), 'is on node "node-0", where the Pod runs already', id="same-node"),
        pytest.param(reservation(node=NEW_NODE, owners=["x"]), "is already bound by another Pod", id="used"),
        pytest.param(reservation(node=NEW_NODE, phase="Succeeded"), "is already bound by another Pod", id="used-up"),
        pytest.param(reservation(node=NEW_NODE, cpu="500m"), "Insufficient cpu", id="too-small"),
        pytest.param(reservation(cpu="500m"), "Insufficient cpu", id="too-small-without-a-node"),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"object": {"uid": "uid-web-a"}}]}),
            "runs on node",
            id="owner-is-the-pod-itself",
        ),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"object": {"name": "web-a"}}]}),
            "has no owner that matches the pod",
            id="owner-by-a-name-that-the-replacement-will-not-have",
        ),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"controller": {"name": "web-1", "namespace": "elsewhere"}}]}),
            "has no owner that matches the pod",
            id="owner-in-another-namespace",
        ),
        pytest.param(reservation(node=NEW_NODE, spec={"unschedulable": True}), "is unschedulable", id="unschedulable"),
        pytest.param(
            reservation(node=NEW_NODE, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
            "had untolerated taint {k: }",
            id="tainted",
        ),
    ],
)
def test_a_supplied_reservation_that_the_replacement_cannot_use_is_refused_and_stays(kept, text):
    world = World(job=job(**supplied()), reservations=[kept])
    assert outcome(world) == FORBIDDEN
    assert text in world.status["message"]
    assert (list(world.reservations), world.evictions) == (["kept"], [])


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        pytest.param(reservation(node=NEW_NODE, phase="Failed"), "ReservationExpired", id="expired"),
        pytest.param(
            reservation(node=NEW_NODE, metadata={"deletionTimestamp": timestamp(NOON)}),
            "MissingReservation",
            id="being-deleted",
        ),
    ],
)
def test_a_supplied_reservation_that_has_ended_fails_the_job(kept, wanted):
    world = World(job=job(**supplied()), reservations=[kept])
    assert outcome(world) == ("Failed", wanted)
    assert list(world.reservations) == ["kept"]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(reservation(node=NEW_NODE), id="of-the-same-size"),
        pytest.param(reservation(node=NEW_NODE, cpu="2"), id="larger"),
        pytest.param(reservation(node=NEW_NODE, spec={"allocateOnce": False}), id="for-several-pods"),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}]}),
            id="owners-by-labels",
        ),
    ],
)
def test_a_supplied_reservation_that_suits_the_replacement_is_used(kept):
    world = World(job=job(**supplied()), reservations=[kept])
    world.settle()
    assert [each.reservation for each in world.evictions] == ["kept"]
    assert list(world.reservations) == ["kept"]


def test_the_replacement_of_a_stateful_pod_keeps_its_name():
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    kept = reservation(node=NEW_NODE, spec={"owners": [{"object": {"name": "web-a", "namespace": "default"}}]})
    world = World(job=job(**supplied()), reservations=[kept], pods=[pod(controller=controller)])
    world.settle()
    assert len(world.evictions) == 1


def test_a_pending_replacement_with_the_name_of_the_evicted_pod_completes_the_eviction():
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    world = World(pods=[pod(controller=controller)])
    reserved(world).place()
    world.settle()
    assert len(world.evictions) == 1
    world.add(pod(uid="uid-next", node="", controller=controller, created=world.now))
    assert outcome(world) == ("Running", "WaitForPodBindReservation")
    world.bind("web-a")
    world.ready("web-a")
    assert outcome(world) == ("Succeeded", "")


class TestFailureDeletesTheReservation:
    """Each failure deletes the Reservation that the job created, unless a pod uses it."""

    @pytest.mark.parametrize(
        ("reach", "act", "wanted"),
        [
            pytest.param(reserved, lambda w: w.end(), MISSING, id="pod-deleted-before-the-reservation-has-a-node"),
            pytest.param(reserved, lambda w: w.place(OLD_NODE), FORBIDDEN, id="reservation-on-the-pods-node"),
            pytest.param(reserved, lambda w: w.expire(), EXPIRED, id="expired"),
            pytest.param(held, lambda w: w.expire(), EXPIRED, id="expired-before-the-eviction"),
            pytest.param(evicted, lambda w: w.expire(), EXPIRED, id="expired-after-the-eviction"),
            pytest.param(
                reserved,
                lambda w: w.reject(CLAIMS_UNSUPPORTED_MESSAGE),
                ("Failed", "Unschedulable"),
                id="alongside",
            ),
            pytest.param(
                held, lambda w: w.pods["web-a"]["status"].update(phase="Succeeded"), FORBIDDEN, id="pod-finished"
            ),
            pytest.param(reserved, lambda w: setattr(w, "now", NOON + 300), TIMEOUT, id="timeout"),
            pytest.param(held, lambda w: setattr(w, "now", NOON + 300), TIMEOUT, id="timeout-of-eviction"),
            pytest.param(evicted, lambda w: setattr(w, "now", NOON + 300), TIMEOUT, id="timeout-after-eviction"),
        ],
    )
    def test_unused(self, reach, act, wanted):
        world = reach(World())
        act(world)
        assert outcome(world) == wanted
        assert world.reservations == {}
        assert len(world.evictions) <= 1

    def test_a_reservation_in_use_stays(self):
        world = bound(World())
        world.now = NOON + 300
        assert outcome(world) == ("Failed", "Timeout")
        assert list(world.reservations) == [JOB_UID]

    def test_the_failure_is_written_before_the_deletion(self):
        world = reserved(World())
        world.end()
        (*_, failed, deleted) = world.settle()
        assert failed.body["status"]["phase"] == "Failed"
        assert isinstance(deleted, DeleteReservation)

    def test_a_restart_between_the_two_writes_loses_nothing(self):
        world = reserved(World())
        world.end()
        while world.status["phase"] != "Failed":
            world.step()
        world.restart()
        world.settle()
        assert world.reservations == {}

    def test_a_job_that_is_deleted_takes_its_reservation_along(self):
        world = reserved(World())
        world.job["metadata"]["deletionTimestamp"] = timestamp(NOON)
        assert isinstance(world.settle()[0], DeleteReservation)

    def test_a_job_that_is_deleted_leaves_a_reservation_in_use(self):
        world = bound(World())
        world.job["metadata"]["deletionTimestamp"] = timestamp(NOON)
        assert world.settle() == []


class TestTimeToLive:
    def test_counts_while_the_job_is_paused(self):
        world = World(job=job(passed=False, spec={"paused": True, "ttl": "1m"}))
        world.settle()
        assert world.plan().wake_at == NOON + 60
        assert world.condition("PassedArbitration") == ("False", "Paused")
        world.now = NOON + 60
        assert outcome(world) == ("Failed", "Timeout")
        assert "PassedArbitration is False: spec.paused is true" in world.status["message"]

    def test_counts_while_the_job_waits_for_arbitration(self):
        world = World(job=job(passed=False))
        world.now = NOON + 300
        assert outcome(world) == ("Failed", "Timeout")
        assert world.status["message"].endswith("within its ttl of 5m0s; it waited for arbitration")

    @pytest.mark.parametrize(
        ("given", "default"),
        [pytest.param({"ttl": "0s"}, "5m", id="of-the-job"), pytest.param({}, "0s", id="by-default")],
    )
    def test_zero_is_unlimited(self, given, default):
        args = MigrationControllerArgs.model_validate({"defaultJobTTL": default})
        world = reserved(World(job=job(spec=given), args=args))
        world.now = NOON + 1e7
        assert world.settle() == []
        assert world.reservation["spec"]["ttl"] == "0s"


class TestPaused:
    @pytest.mark.parametrize(
        "reach", [pytest.param(lambda w: w, id="before-it-begins"), pytest.param(reserved, id="reserved")]
    )
    def test_begins_nothing(self, reach):
        world = reach(World())
        world.job["spec"]["paused"] = True
        if world.reservation:
            world.place()
        assert not any(isinstance(each, CreateReservation | EvictPod) for each in world.settle())
        assert world.status.get("phase", "") == ("Running" if world.reservation else "")

    def test_reports_what_happens_to_a_migration_that_has_evicted(self):
        world = evicted(World())
        world.job["spec"]["paused"] = True
        world.bind()
        world.ready()
        assert outcome(world) == ("Succeeded", "")

    def test_retries_no_eviction(self):
        world = held(World())
        world.job["spec"]["paused"] = True
        world.now += 10
        assert world.settle() == []


class TestUnschedulable:
    def test_the_schedulers_words_are_reported_once(self):
        world = reserved(World())
        for _ in range(2):
            world.reject("0/2 nodes are available: 2 Insufficient cpu.")
            world.settle()
        assert world.condition("ReservationScheduled") == ("False", "Unschedulable")
        assert world.events[1:] == [("Unschedulable", "0/2 nodes are available: 2 Insufficient cpu.")]
        assert world.plan().wake_at == NOON + 60

    def test_the_job_fails_after_a_minute_and_leaves_nothing(self):
        world = reserved(World())
        world.reject("0/2 nodes are available: 2 Insufficient cpu.")
        world.settle()
        world.now = NOON + 60
        assert outcome(world) == ("Failed", "Unschedulable")
        assert "2 Insufficient cpu" in world.status["message"]
        assert (world.reservations, world.evictions) == ({}, [])
        assert world.condition("ReservationScheduled") == ("False", "Unschedulable")

    def test_a_node_in_time_saves_the_job(self):
        world = reserved(World())
        world.reject()
        world.settle()
        world.place()
        world.settle()
        assert world.condition("ReservationScheduled") == ("True", "")

    def test_the_time_of_an_old_supplied_reservation_counts_from_its_use(self):
        kept = reservation(created=NOON - 3600)
        world = reserved(World(job=job(**supplied()), reservations=[kept]))
        world.reject()
        world.settle()
        assert world.status["phase"] == "Running"


class TestEviction:
    def test_a_pod_deleted_by_its_controller_counts_as_evicted(self):
        world = reserved(World())
        world.place()
        world.end()
        world.add(pod(uid="uid-next", node=NEW_NODE))
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")
        assert world.evictions == []

    def test_a_failed_pod_counts_as_evicted(self):
        world = held(World())
        world.pods["web-a"]["status"] = {"phase": "Failed"}
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")

    def test_only_a_live_read_proves_that_a_pod_is_gone(self):
        world = held(World())
        world.end()
        assert isinstance(world.step(), ReadPod)
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")

    def test_a_pod_that_is_being_deleted_is_awaited(self):
        world = reserved(World())
        world.pods["web-a"]["metadata"]["deletionTimestamp"] = timestamp(NOON)
        world.place()
        world.settle()
        assert world.evictions == []
        world.end()
        world.settle()
        assert world.condition("Eviction") == ("True", "EvictComplete")

    def test_a_pod_that_is_being_deleted_before_the_reservation_has_a_node_is_awaited(self):
        world = reserved(World())
        world.pods["web-a"]["metadata"]["deletionTimestamp"] = timestamp(NOON)
        assert world.settle() == []
        world.end()
        assert outcome(world) == MISSING

    def test_a_live_read_counts_more_than_the_watch(self):
        world = World()
        while not world.job["spec"]["podRef"].get("uid"):
            world.step()
        shown, world.pods["web-a"] = world.pods["web-a"], pod(uid="uid-next")
        world.apply(ReadPod(key=("default", "web-a")))
        world.pods["web-a"] = shown
        assert outcome(world) == MISSING

    def test_a_refused_eviction_is_reported_once_and_tried_again_after_three_seconds(self):
        world = held(World())
        text = 'Failed evict Pod "default/web-a" caused by too many requests'
        assert world.events[-1] == ("Evicting", text)
        assert world.status["message"] == text
        assert (len(world.evictions), world.plan().wake_at) == (1, NOON + 3)
        world.now += 3
        world.settle()
        assert (len(world.evictions), world.events.count(("Evicting", text))) == (2, 1)
        world.evict_error = ""
        world.now += 3
        world.settle()
        world.end()
        world.settle()
        assert (len(world.evictions), world.condition("Eviction")) == (3, ("True", "EvictComplete"))

    def test_no_second_eviction_while_the_watch_does_not_show_the_first(self):
        world = reserved(World())
        world.place()
        world.settle()
        del world.pods["web-a"]["metadata"]["deletionTimestamp"]
        assert world.settle() == []
        world.bind("web-b")
        world.now += 60
        assert world.settle() == []

    def test_a_reservation_that_another_pod_took_forbids_the_eviction(self):
        world = held(World())
        world.bind("sibling", created=NOON - 60)
        assert outcome(world) == FORBIDDEN
        assert "is already bound by another Pod" in world.status["message"]
        assert list(world.reservations) == [JOB_UID]

    def test_a_new_pod_in_the_reservation_may_be_the_replacement_of_a_pod_that_is_gone_already(self):
        world = held(World())
        world.bind("web-b")
        assert world.settle() == []
        assert world.plan().wake_at == NOON + 10
        world.end()
        world.settle()
        assert world.status["podRef"]["name"] == "web-b"

    @pytest.mark.parametrize(
        ("of_job", "of_pod", "default", "wanted"),
        [
            pytest.param("Delete", "SoftEviction", EvictionPolicy.EVICTION, "Delete", id="job-first"),
            pytest.param("", "SoftEviction", EvictionPolicy.EVICTION, "SoftEviction", id="then-the-pod"),
            pytest.param("", "", EvictionPolicy.DELETE, "Delete", id="then-the-configuration"),
        ],
    )
    def test_labels_choose_the_policy(self, of_job, of_pod, default, wanted):
        label = "koordinator.sh/evict-policy"
        world = reserved(
            World(
                job=job(metadata={"labels": {label: of_job} if of_job else {}}),
                pods=[pod(metadata={"labels": {label: of_pod} if of_pod else {}})],
                args=MigrationControllerArgs(eviction_policy=default),
            )
        )
        world.place()
        world.settle()
        assert [each.policy for each in world.evictions] == [EvictionPolicy(wanted)]

    def test_options_of_the_job_are_kept_except_the_uid(self):
        given = {"gracePeriodSeconds": 5, "preconditions": {"uid": "other", "resourceVersion": "7"}}
        annotations = {"koordinator.sh/evict-reason": "node is hot"}
        world = reserved(World(job=job(spec={"deleteOptions": given}, metadata={"annotations": annotations})))
        world.place()
        world.settle()
        (found,) = world.evictions
        wanted = {"gracePeriodSeconds": 5, "preconditions": {"uid": "uid-web-a", "resourceVersion": "7"}}
        assert (found.delete_options, found.reason) == (wanted, "node is hot")

    def test_a_soft_eviction_is_requested_once_even_after_a_restart(self):
        label = {"koordinator.sh/evict-policy": "SoftEviction"}
        world = reserved(World(job=job(metadata={"labels": label})))
        world.place()
        world.settle()
        world.restart()
        world.settle()
        assert len(world.evictions) == 1


class TestReplacement:
    def test_is_recorded_only_once_it_is_bound(self):
        world = evicted(World())
        world.bind()
        world.reservation["status"]["phase"] = "Available"
        world.pods["web-b"]["spec"]["nodeName"] = ""
        world.settle()
        assert "podRef" not in world.status

    def test_a_sibling_that_took_the_reservation_is_recorded_as_it_is(self):
        world = evicted(World())
        world.bind("sibling", created=NOON - 60)
        world.ready("sibling")
        assert outcome(world) == ("Succeeded", "")
        assert world.status["podRef"]["name"] == "sibling"
        text = f'Bind Pod "default/sibling" in Reservation "{JOB_UID}", which was made for the replacement of Pod'
        assert any(message.startswith(text) for _, message in world.events)

    def test_that_has_ended_unseen_fails_the_job(self):
        world = evicted(World())
        world.bind()
        world.reservation["status"]["currentOwners"] = []
        assert outcome(world) == MISSING
        assert "has ended already" in world.status["message"]

    def test_a_pod_that_ends_before_it_is_ready_fails_the_job(self):
        world = bound(World())
        world.end("web-b")
        assert outcome(world) == MISSING
        assert list(world.reservations) == [JOB_UID]

    def test_of_the_same_name_is_awaited_while_the_watch_still_shows_the_evicted_pod(self):
        world = evicted(World())
        new = pod("web-a", uid="uid-next", node="", created=NOON)
        world.add(new)
        world.bind("web-a")
        world.settle()
        world.pods["web-a"] = pod("web-a")
        assert world.status["podRef"]["uid"] == "uid-next"
        assert isinstance(world.step(), ReadPod)
        world.pods["web-a"] = new
        world.ready("web-a")
        assert outcome(world) == ("Succeeded", "")

    def test_a_pod_that_finished_counts_as_ready(self):
        world = bound(World())
        world.pods["web-b"]["status"] = {"phase": "Succeeded"}
        assert outcome(world) == ("Succeeded", "")

    def test_a_reservation_that_is_gone_after_the_pod_was_recorded_does_not_matter(self):
        world = bound(World())
        world.reservations.clear()
        world.ready()
        assert outcome(world) == ("Succeeded", "")

    def test_only_a_live_read_proves_that_the_reservation_is_gone(self):
        world = evicted(World())
        world.reservations.clear()
        assert outcome(world) == ("Failed", "MissingReservation")

    def test_another_reservation_of_the_name_does_not_count(self):
        world = reserved(World())
        world.reservation["metadata"]["uid"] = "uid-other"
        assert outcome(world) == ("Failed", "MissingReservation")


class TestPendingPod:
    def waiting(self):
        world = reserved(World(pods=[pod(node="", cpu="1")]))
        world.place()
        world.settle()
        return world

    def test_gets_a_reservation_of_its_own_and_is_not_evicted(self):
        world = self.waiting()
        owner = {"uid": "uid-web-a", "name": "web-a", "namespace": "default"}
        assert world.reservation["spec"]["owners"] == [{"object": owner}]
        assert "affinity" not in world.reservation["spec"]["template"]["spec"]
        assert world.condition("PodScheduled") == ("False", "Unschedulable")
        world.bind("web-a")
        world.settle()
        assert world.condition("PodScheduled") == ("True", "")
        world.ready("web-a")
        assert outcome(world) == ("Succeeded", "")
        assert world.evictions == []

    def test_may_be_bound_before_the_node_of_its_reservation_is_reported(self):
        world = reserved(World(pods=[pod(node="")]))
        world.place()
        world.bind("web-a")
        world.ready("web-a")
        assert outcome(world) == ("Succeeded", "")

    def test_that_is_deleted_fails_the_job(self):
        world = self.waiting()
        world.end()
        assert outcome(world) == MISSING
        assert world.reservations == {}

    def test_that_runs_outside_of_its_reservation_needs_no_migration(self):
        world = self.waiting()
        world.pods["web-a"]["spec"]["nodeName"] = "node-7"
        assert outcome(world) == FORBIDDEN
        assert (world.reservations, world.evictions) == ({}, [])

    def test_that_was_bound_in_its_reservation_is_awaited(self):
        world = self.waiting()
        world.pods["web-a"]["spec"]["nodeName"] = NEW_NODE
        text = '{"name": "x", "uid": "uid-held"}'
        world.pods["web-a"]["metadata"]["annotations"] = {"scheduling.koordinator.sh/reservation-allocated": text}
        assert world.settle() == []


class TestEvictDirectly:
    def test_evicts_and_reserves_nothing(self):
        world = World(job=job(spec={"mode": "EvictDirectly"}), pods=[pod(controller=None)])
        world.settle()
        assert (world.reservations, [each.reservation for each in world.evictions]) == ({}, [""])
        assert world.status["phase"] == "Running"
        world.end()
        assert outcome(world) == ("Succeeded", "")
        assert world.status["status"] == "Complete"
        assert [reason for reason, _ in world.events] == ["Evicting", "EvictComplete"]

    def test_fails_without_a_pod(self):
        world = World(job=job(spec={"mode": "EvictDirectly"}))
        while world.status.get("phase") != "Running":
            world.step()
        world.end()
        assert outcome(world) == MISSING


class TestCreation:
    def test_that_the_api_server_rejects_fails_the_job(self):
        world = World()
        world.create_error = "admission webhook denied the request"
        assert outcome(world) == ("Failed", "FailedCreateReservation")
        assert world.status["message"] == "admission webhook denied the request"

    def test_that_succeeded_before_a_crash_is_continued(self):
        world = World()
        while not isinstance(world.step(), CreateReservation):
            pass
        world.restart()
        world.settle()
        assert world.condition("ReservationCreated") == ("True", "")
        assert len(world.reservations) == 1


class TestEndedJobs:
    @pytest.mark.parametrize(
        ("ttl", "due"),
        [pytest.param("5m", 600, id="ttl-and-five-minutes"), pytest.param("0s", 1800, id="half-an-hour-without-ttl")],
    )
    def test_are_deleted_when_they_are_old(self, ttl, due):
        world = World(job=job(spec={"ttl": ttl}), pods=[])
        world.settle()
        assert world.status["phase"] == "Failed"
        assert world.plan().wake_at == NOON + due
        world.now = NOON + due
        assert isinstance(world.step(), DeleteJob)

    def test_stay_five_minutes_if_they_took_long(self):
        world = bound(World(job=job(spec={"ttl": "0s"})))
        world.now = NOON + 7200
        world.ready()
        world.settle()
        assert not world.job_deleted
        world.now += 300
        world.settle()
        assert world.job_deleted

    def test_unfinished_jobs_are_not_deleted(self):
        world = reserved(World(job=job(spec={"ttl": "0s"})))
        world.now = NOON + 1e6
        assert world.settle() == []

    @pytest.mark.parametrize("phase", ["Failed", "Aborted"])
    def test_a_person_may_end_a_job(self, phase):
        world = reserved(World())
        world.job["status"]["phase"] = phase
        world.settle()
        assert (world.reservations, world.evictions) == ({}, [])


def test_a_job_that_cannot_be_read_fails_and_says_why():
    content = job(spec={"unknown": 1}, status={"phase": "Running"})
    view = JobView(job=unreadable_job(content), parse_error="podmigrationjob migration: spec.unknown: unknown field")
    (action,) = decide(view, args=MigrationControllerArgs(), now=NOON).actions
    assert (action.body["status"]["phase"], action.body["status"]["reason"]) == ("Failed", "Invalid")


def test_conditions_of_others_are_kept():
    other = {"type": "Seen", "status": "True", "reason": "ByMe"}
    world = World(job=job(status={"conditions": [other]}))
    world.settle()
    assert world.status["conditions"][0] == other
