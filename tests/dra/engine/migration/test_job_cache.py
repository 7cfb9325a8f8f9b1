import msgspec
import pytest

from dra.engine.instants import NEVER
from dra.engine.migration.job_cache import JobCache
from dra.engine.migration.live_reads import LIVE_POD_SECONDS, LookedAtPod
from dra.engine.migration.view import MigrationPod
from dra.model.meta import ObjectMeta, UnstructuredObject

KEY = ("ns", "web-0")
UID = "job-1"


def unstructured(content):
    return UnstructuredObject(metadata=msgspec.convert(content["metadata"], ObjectMeta), content=content)


def job_object(*, version="5", uid=UID, pod="", status=None, spec=None, **metadata):
    return unstructured(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {"name": "m", "uid": uid, "resourceVersion": version, **metadata},
            "spec": {"podRef": {"namespace": "ns", "name": "web-0", "uid": pod}, **(spec or {})},
            "status": status or {},
        }
    )


def reservation_object(*, version="5", uid="r1", owners=(), made=True, **spec):
    """Return the Reservation that the job `UID` made, or one that only has its name."""
    reference = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "uid": UID}
    references = [{**reference, "name": "m", "controller": True}] if made else []
    return unstructured(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": UID, "uid": uid, "resourceVersion": version, "ownerReferences": references},
            "spec": {
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                "owners": [{"object": {"name": "x"}}],
                **spec,
            },
            "status": {"phase": "Available", "nodeName": "n2", "currentOwners": list(owners)},
        }
    )


def pod(uid="p1", *, name="web-0", version="1", **status):
    metadata = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status}, MigrationPod)


def owner(uid, name="web-0"):
    return {"namespace": "ns", "name": name, "uid": uid}


def test_siblings_are_jobs_of_the_same_namespace():
    """A forged controller of another namespace joined the exchange of another tenant's Reservations."""
    cache = JobCache()
    annotations = {"reserve.dra/migrated-workload": "uid-of-web"}
    eviction = {"phase": "Running", "conditions": [{"type": "Eviction", "status": "False"}]}
    for uid, namespace in ((UID, "ns"), ("job-2", "ns"), ("job-3", "evil")):
        spec = {"podRef": {"namespace": namespace, "name": uid}}
        cache.watch_job(job_object(uid=uid, name=uid, annotations=annotations, spec=spec, status=eviction))
    cache.watch_reservation(reservation_object())
    assert [each.job.metadata.name for each in cache.view(UID).siblings] == ["job-2"]
    cache.dirty.clear()
    cache.watch_job(job_object(uid="job-3", name="job-3", version="6", annotations=annotations, spec=spec))
    assert list(cache.dirty) == ["job-3"]


@pytest.mark.parametrize("made", [True, False])
def test_a_reservation_that_only_has_the_name_of_a_job_is_no_unclaimed_one(made):
    cache = JobCache()
    annotations = {"reserve.dra/migrated-workload": "uid-of-web"}
    eviction = {"phase": "Running", "conditions": [{"type": "Eviction", "status": "False"}]}
    kept = {"reservationOptions": {"reservationRef": {"name": "kept"}}}
    cache.watch_job(job_object(annotations=annotations, spec=kept, status=eviction))
    cache.watch_job(job_object(uid="job-2", name="n", annotations=annotations, status=eviction))
    cache.watch_reservation(reservation_object(owners=[owner("p9", "web-9")], made=made))
    assert [each.metadata.name for each in cache.view("job-2").unclaimed] == ([UID] if made else [])


@pytest.fixture
def cache():
    made = JobCache()
    made.watch_job(job_object())
    made.dirty.clear()
    made.arbitration.is_due = False
    return made


# What an event makes due


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda cache: cache.observe_pod(pod()), id="its-pod"),
        pytest.param(lambda cache: cache.forget_pod(pod()), id="its-pod-ends"),
        pytest.param(lambda cache: cache.watch_reservation(reservation_object()), id="its-reservation"),
        pytest.param(lambda cache: cache.watch_job(job_object(version="6")), id="the-job"),
    ],
)
def test_an_event_makes_the_job_due_that_reads_the_object(cache, event):
    event(cache)
    assert list(cache.dirty) == [UID]


def test_a_reservation_that_is_read_once_more_makes_no_job_due(cache):
    cache.watch_reservation(reservation_object())
    cache.dirty.clear()
    cache.observe_reservation(reservation_object())
    assert not cache.dirty
    cache.live(UID).reservation_gone = True
    cache.observe_reservation(reservation_object())
    assert (list(cache.dirty), cache.live(UID).reservation_gone) == ([UID], False)


def test_the_end_of_a_reservation_makes_its_job_due(cache):
    cache.watch_reservation(reservation_object())
    cache.dirty.clear()
    cache.forget_reservation(UID, "another")
    assert not cache.dirty
    cache.forget_reservation(UID, "r1")
    assert list(cache.dirty) == [UID]


def test_the_pod_in_a_reservation_makes_the_job_due(cache):
    cache.watch_reservation(reservation_object(owners=[owner("b", "other")]))
    cache.dirty.clear()
    cache.observe_pod(pod("b", name="other"))
    assert list(cache.dirty) == [UID]
    assert cache.view(UID).bound_pod.metadata.uid == "b"


def test_a_stranger_makes_no_job_due_and_arbitration_only_while_a_job_waits(cache):
    cache.observe_pod(pod("s", name="stranger"))
    assert (list(cache.dirty), cache.arbitration.is_due) == ([], True)
    cache.watch_job(job_object(version="6", status={"phase": "Running"}))
    cache.arbitration.is_due = False
    cache.observe_pod(pod("s", name="stranger", version="2"))
    cache.forget_pod(pod("s", name="stranger"))
    assert not cache.arbitration.is_due


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": {"phase": "Succeeded"}}, id="ended"),
        pytest.param({"spec": {"paused": True}}, id="paused"),
        pytest.param({"annotations": {"descheduler.koordinator.sh/passed-arbitration": "true"}}, id="passed"),
        pytest.param({"deletionTimestamp": "2026-11-24T12:00:00Z"}, id="deleted"),
    ],
)
def test_a_job_that_no_longer_waits_lets_the_others_be_arbitrated(cache, change):
    cache.watch_job(job_object(version="6", **change))
    assert cache.arbitration.is_due


# What must not stay


def test_the_answer_to_a_write_revives_no_job_that_the_watch_has_seen_deleted(cache):
    cache.forget_job(UID)
    cache.observe_job(job_object(version="6"))
    assert list(cache.uids()) == []


def test_the_answer_to_a_write_revives_no_reservation_that_the_watch_has_seen_deleted(cache):
    cache.forget_reservation(UID, "r1")
    cache.observe_reservation(reservation_object())
    assert not cache.has_reservation(UID)
    cache.observe_reservation(reservation_object(uid="r2"))
    assert cache.has_reservation(UID)


@pytest.mark.parametrize(
    ("listed", "stays"),
    [
        pytest.param("4", True, id="the-list-is-older"),
        pytest.param("5", False, id="the-list-is-as-new"),
    ],
)
def test_an_object_that_only_a_write_has_shown_ends_with_a_list_without_it(listed, stays):
    cache = JobCache()
    cache.observe_job(job_object())
    cache.observe_reservation(reservation_object())
    cache.reservations_listed(listed)
    cache.jobs_listed(listed)
    assert cache.has_reservation(UID) == stays
    assert list(cache.uids()) == ([UID] if stays else [])


def test_an_object_of_the_watch_outlives_a_list_that_brings_no_change(cache):
    cache.watch_reservation(reservation_object())
    cache.observe_reservation(reservation_object(version="6"))
    cache.observe_job(job_object(version="6"))
    cache.reservations_listed("9")
    cache.jobs_listed("9")
    assert cache.has_reservation(UID)
    assert list(cache.uids()) == [UID]


def test_nothing_is_kept_for_jobs_that_have_ended_or_are_gone(cache):
    cache.live(UID).create_error = "kept"
    assert cache.live(UID).create_error == "kept"
    cache.watch_job(job_object(version="6", status={"phase": "Failed"}))
    cache.forget_pod(pod())
    cache.live("unknown").evict_error = "lost"
    assert cache._live == {}


def test_indexes_are_empty_after_the_last_object():
    cache = JobCache()
    cache.watch_job(job_object())
    cache.observe_pod(pod())
    cache.watch_reservation(reservation_object(owners=[owner("b", "other")]))
    cache.live(UID).evicted = "p1"
    cache.forget_pod(pod())
    cache.forget_reservation(UID, "r1")
    cache.forget_job(UID)
    kept = {"dirty", "pods", "arbitration", "_gone", "_index"}
    indexes = {**vars(cache), **vars(cache._index)}
    assert {name for name, value in indexes.items() if value and name not in kept} == set()


def test_a_pod_that_only_a_read_has_shown_is_dropped_after_a_while(cache):
    live = cache.live(UID)
    live.pod, live.pod_read_at = pod(), 10.0
    assert cache.drop_old_reads(UID, now=11.0) == 10.0 + LIVE_POD_SECONDS
    assert cache.view(UID).pod is not None
    assert cache.drop_old_reads(UID, now=10.0 + LIVE_POD_SECONDS) == NEVER
    assert cache.view(UID).pod is None


def test_the_pod_in_a_reservation_that_only_a_read_has_shown_is_dropped_after_a_while(cache):
    cache.watch_reservation(reservation_object(owners=[owner("b")]))
    live = cache.live(UID)
    live.bound_pod, live.bound_pod_read_at = pod("b"), 10.0
    assert cache.drop_old_reads(UID, now=11.0) == 10.0 + LIVE_POD_SECONDS
    assert cache.drop_old_reads(UID, now=80.0) == NEVER
    assert cache.view(UID).bound_pod is None


# What proves the end of a pod


def test_a_pod_is_gone_once_the_watch_has_shown_its_end(cache):
    cache.observe_pod(pod())
    assert not cache.view(UID).pod_gone
    cache.forget_pod(pod())
    assert cache.view(UID).pod_gone
    cache.observe_pod(pod("p2"))
    assert not cache.view(UID).pod_gone


def test_an_earlier_pod_of_the_name_is_no_proof_that_the_job_names_none():
    """The watch of pods may be behind the one of jobs: a StatefulSet gives a name again."""
    cache = JobCache()
    cache.watch_job(job_object(pod="p2"))
    cache.observe_pod(pod("p1"))
    view = cache.view(UID)
    assert (view.pod, view.pod_gone) == (None, False)
    cache.live(UID).pod = pod("p3")
    assert cache.view(UID).pod.metadata.uid == "p3", "a live read is proof"


def test_the_end_of_the_migrated_pod_is_not_that_of_its_replacement_of_the_same_name(cache):
    cache.observe_pod(pod("p1"))
    cache.watch_reservation(reservation_object(owners=[owner("p2")]))
    cache.forget_pod(pod("p1"))
    assert not cache.view(UID).bound_pod_gone
    cache.observe_pod(pod("p2"))
    cache.forget_pod(pod("p2"))
    assert cache.view(UID).bound_pod_gone


def test_the_end_of_one_pod_in_a_reservation_is_not_that_of_the_next(cache):
    cache.watch_reservation(reservation_object(owners=[owner("a", "a")]))
    cache.observe_pod(pod("a", name="a"))
    cache.forget_pod(pod("a", name="a"))
    assert cache.view(UID).bound_pod_gone
    cache.watch_reservation(reservation_object(version="6", owners=[owner("b", "b")]))
    assert not cache.view(UID).bound_pod_gone


# Versions, and what cannot be read


def test_an_older_state_changes_nothing(cache):
    cache.watch_job(job_object(version="7", status={"phase": "Running"}))
    cache.dirty.clear()
    cache.watch_job(job_object(version="6"))
    cache.watch_reservation(reservation_object(version="9"))
    cache.dirty.clear()
    cache.watch_reservation(reservation_object(version="8", owners=[owner("x")]))
    assert not cache.dirty
    assert cache.view(UID).job.status.phase == "Running"
    assert not cache.view(UID).reservation.status.current_owners


def test_a_job_that_cannot_be_read_says_why_and_is_not_arbitrated(cache):
    cache.watch_job(job_object(version="6", spec={"mod": "typo"}))
    assert "mod" in cache.view(UID).parse_error
    assert cache.arbitration_view().jobs == ()


def test_a_reservation_that_cannot_be_read_counts_as_absent(cache):
    cache.watch_reservation(reservation_object())
    cache.watch_reservation(reservation_object(version="6", template=3))
    assert cache.view(UID).reservation is None


def test_jobs_are_counted_by_phase_and_reason(cache):
    cache.watch_job(job_object(uid="2", status={"phase": "Failed", "reason": "Timeout"}))
    cache.watch_job(job_object(uid="3", status={"phase": "Succeeded", "reason": "old"}))
    assert cache.count_by_phase() == {("Pending", ""): 1, ("Failed", "Timeout"): 1, ("Succeeded", ""): 1}


def test_a_newer_version_of_a_live_read_counts_until_the_watch_has_caught_up(cache):
    """Otherwise the limit for each node counts no pod that was bound while the watch was behind."""

    def version(number, node):
        return msgspec.convert(
            {
                "metadata": {"namespace": "ml", "name": "a", "uid": "p1", "resourceVersion": number},
                "spec": {"nodeName": node},
            },
            MigrationPod,
        )

    def read(pod):
        key = pod.metadata.key
        was_watched = cache.pods.by_key(key) is not None
        cache.observe_read_pod(UID, key, LookedAtPod(pod, {}), was_watched=was_watched, now=0.0)

    read(version("5", "n1"))
    assert cache.pods.by_key(("ml", "a")) is None, "no watch would ever show its end"
    cache.observe_pod(version("3", ""))
    read(version("5", "n1"))
    cache.observe_pod(version("4", ""))
    assert cache.pods.by_key(("ml", "a")).spec.node_name == "n1"
    cache.observe_pod(version("6", "n2"))
    assert cache.pods.by_key(("ml", "a")).spec.node_name == "n2"


# Live reads


def looked_at(uid="p1", **given):
    return LookedAtPod(pod(uid, **given), {"metadata": {"name": "web-0", "uid": uid, "managedFields": []}, "spec": {}})


def test_a_live_read_shows_the_pod_of_a_job_and_its_template(cache):
    cache.observe_read_pod(UID, KEY, looked_at(), was_watched=False, now=10.0)
    view = cache.view(UID)
    assert (view.pod.metadata.uid, view.pod_gone) == ("p1", False)
    assert view.pod_template == {"metadata": {"name": "web-0", "uid": "p1"}, "spec": {}}
    cache.observe_read_pod(UID, KEY, None, was_watched=False, now=20.0)
    view = cache.view(UID)
    assert (view.pod, view.pod_gone, view.pod_template) == (None, True, None)


def test_a_live_read_shows_the_pod_in_a_reservation(cache):
    cache.watch_reservation(reservation_object(owners=[owner("b", "other")]))
    cache.observe_read_pod(UID, ("ns", "other"), looked_at("b", name="other"), was_watched=False, now=10.0)
    view = cache.view(UID)
    assert (view.pod, view.bound_pod.metadata.uid, view.bound_pod_gone) == (None, "b", False)
    cache.observe_read_pod(UID, ("ns", "other"), None, was_watched=False, now=10.0)
    assert cache.view(UID).bound_pod_gone


def test_a_pod_whose_end_the_watch_has_shown_during_a_live_read_is_gone(cache):
    cache.observe_read_pod(UID, KEY, looked_at(), was_watched=True, now=10.0)
    assert cache.view(UID).pod_gone


def test_a_live_read_for_a_job_that_is_gone_leaves_nothing(cache):
    cache.forget_job(UID)
    cache.observe_read_pod(UID, KEY, looked_at(), was_watched=False, now=10.0)
    assert cache.view(UID) is None
    assert cache._live == {}
