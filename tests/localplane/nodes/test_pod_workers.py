from itertools import pairwise

import pytest

from dra.model.meta import Uid
from localplane.nodes import pod_workers
from localplane.nodes.pod_types import Container, KubeletPod, KubeletPodSpec, PodMeta
from localplane.nodes.pod_workers import PodAction, PodWorker, PodWorkerState, next_action
from localplane.nodes.programs import RUN_SECONDS, STOP_SECONDS
from tests.dra.kube.virtual import seeded

WALL = "2026-11-20T12:00:00Z"


def resident(*, policy="Always", seconds="for-ever", code="0", **annotations):
    notes = {RUN_SECONDS: seconds, "local.reserve.dra/exit-code": code, **annotations}
    meta = PodMeta(name="p", namespace="default", uid=Uid("u"), resource_version="1", annotations=notes)
    made = PodWorker(
        KubeletPod(metadata=meta, spec=KubeletPodSpec(containers=[Container(name="main")], restart_policy=policy)),
        "n1",
        "a",
    )
    made.reported_summary = made.summary()
    return made


def deleted(subject, *, grace=30):
    meta = subject.pod.metadata
    fields = {"name": "p", "namespace": "default", "uid": meta.uid, "annotations": meta.annotations}
    gone = PodMeta(**fields, resource_version="2", deletion_timestamp=WALL, deletion_grace_period_seconds=grace)
    subject.pod = KubeletPod(metadata=gone, spec=subject.pod.spec)


def steps(subject, now):
    """Do all that is to be done at a time; return it."""
    done = []
    while (step := next_action(subject, now=now, wall=WALL)) not in (PodAction.NONE, PodAction.FORGET):
        done.append(step)
        match step:
            case PodAction.CREATE_SANDBOX:
                pod_workers.sandbox_created(subject, now=now, wall=WALL)
            case PodAction.UNPREPARE:
                subject.state = PodWorkerState.TERMINATED
            case PodAction.UPDATE_STATUS:
                subject.reported_summary = subject.summary()
            case PodAction.DELETE_POD:
                subject.deletion_sent = True
    return done + ([step] if step is PodAction.FORGET else [])


def test_a_pod_starts_and_is_reported_once():
    subject = resident()
    assert steps(subject, 0.0) == [PodAction.CREATE_SANDBOX, PodAction.UPDATE_STATUS]
    assert (subject.phase, subject.wake_at) == ("Running", None)


def test_devices_are_given_back_before_the_end_is_told():
    subject = resident(policy="Never", seconds="5")
    steps(subject, 0.0)
    assert subject.wake_at == 5.0
    assert steps(subject, 5.0) == [PodAction.UNPREPARE, PodAction.UPDATE_STATUS]
    assert subject.phase == "Succeeded"


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", "0", "Succeeded"), ("Never", "1", "Failed"), ("OnFailure", "0", "Succeeded")],
)
def test_how_pods_end(policy, code, phase):
    subject = resident(policy=policy, seconds="5", code=code)
    steps(subject, 0.0)
    steps(subject, 5.0)
    assert subject.phase == phase


def test_a_container_that_ends_again_and_again_waits_longer_each_time():
    subject = resident(policy="OnFailure", seconds="1", code="1")
    now, starts = 0.0, []
    while len(starts) < 8:
        steps(subject, now)
        if subject.containers[0].running:
            starts.append(now)
        now = subject.wake_at
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps == [1.0, 11.0, 21.0, 41.0, 81.0, 161.0, 301.0]
    assert subject.containers[0].restarts == 7


def test_the_grace_period_is_honoured():
    subject = resident(**{STOP_SECONDS: "20"})
    steps(subject, 0.0)
    deleted(subject)
    assert steps(subject, 10.0) == []
    assert subject.wake_at == 30.0
    assert steps(subject, 30.0) == [PodAction.UNPREPARE, PodAction.UPDATE_STATUS, PodAction.DELETE_POD]
    assert subject.containers[0].exit_code == pod_workers.SIGTERM_EXIT_CODE


def test_who_does_not_stop_in_time_is_killed():
    subject = resident(**{STOP_SECONDS: "100"})
    steps(subject, 0.0)
    deleted(subject, grace=7)
    steps(subject, 10.0)
    assert subject.wake_at == 17.0
    steps(subject, 17.0)
    assert subject.containers[0].exit_code == pod_workers.SIGKILL_EXIT_CODE


def test_a_second_deletion_may_shorten_the_grace_period():
    subject = resident(**{STOP_SECONDS: "100"})
    steps(subject, 0.0)
    deleted(subject, grace=60)
    steps(subject, 0.0)
    deleted(subject, grace=1)
    steps(subject, 10.0)
    assert subject.wake_at == 11.0


def test_a_pod_that_never_started_fails_when_it_is_deleted():
    subject = resident()
    subject.attempt_at = 60.0
    deleted(subject)
    assert steps(subject, 0.0) == [PodAction.UNPREPARE, PodAction.UPDATE_STATUS, PodAction.DELETE_POD]
    assert subject.phase == "Failed"


def test_a_pod_deleted_by_force_ends_without_a_word():
    subject = resident()
    steps(subject, 0.0)
    subject.object_deleted = True
    assert steps(subject, 1.0) == [PodAction.UNPREPARE, PodAction.FORGET]


@pytest.mark.parametrize(
    ("first", "spec", "ends"),
    [
        pytest.param(None, 30, 31.0, id="the-grace-period-of-its-spec"),
        pytest.param(None, 0, 2.0, id="a-second-at-least"),
        pytest.param(0, 30, 31.0, id="a-deletion-without-a-grace-period-before"),
        pytest.param(7, 30, 8.0, id="a-deletion-with-a-grace-period-before"),
    ],
)
def test_containers_of_a_pod_deleted_by_force_have_its_grace_period(first, spec, ends):
    subject = resident(**{STOP_SECONDS: "100"})
    subject.pod = KubeletPod(
        metadata=subject.pod.metadata,
        spec=KubeletPodSpec(containers=[Container(name="main")], termination_grace_period_seconds=spec),
    )
    steps(subject, 0.0)
    if first is not None:
        deleted(subject, grace=first)
        steps(subject, 1.0)
    subject.object_deleted = True
    steps(subject, 1.0)
    assert subject.wake_at == ends
    assert steps(subject, ends) == [PodAction.UNPREPARE, PodAction.FORGET]


def test_a_lost_sandbox_is_told_before_a_new_one_is_made():
    subject = resident()
    steps(subject, 0.0)
    pod_workers.sandbox_lost(subject, now=5.0, wall=WALL)
    assert steps(subject, 5.0) == [PodAction.UPDATE_STATUS, PodAction.CREATE_SANDBOX, PodAction.UPDATE_STATUS]
    assert subject.containers[0].restarts == 1


def test_a_container_that_has_done_its_work_is_not_started_in_a_new_sandbox():
    subject = resident(policy="OnFailure")
    subject.pod = KubeletPod(
        metadata=subject.pod.metadata,
        spec=KubeletPodSpec(containers=[Container(name="main"), Container(name="other")], restart_policy="OnFailure"),
    )
    steps(subject, 0.0)
    subject.containers[0].ends_at = 1.0
    steps(subject, 1.0)
    pod_workers.sandbox_lost(subject, now=2.0, wall=WALL)
    steps(subject, 2.0)
    assert [(run.running, run.restarts) for run in subject.containers] == [(False, 0), (True, 1)]


def test_refused_pods_are_tried_again_after_the_resync_or_a_change():
    subject = resident()
    pod_workers.prepare_failed(subject, now=0.0, random=seeded(1))
    assert steps(subject, 0.0) == [PodAction.UPDATE_STATUS]
    assert 60.0 <= subject.wake_at <= 90.0
    pod_workers.pod_updated(subject, now=5.0)
    assert steps(subject, 5.0) == [PodAction.CREATE_SANDBOX, PodAction.UPDATE_STATUS]


def test_news_of_an_earlier_run_are_none():
    subject = resident(policy="OnFailure")
    steps(subject, 0.0)
    run = subject.containers[0]
    pod_workers.container_exited(subject, run, number=run.number - 1, exit_code=1, now=1.0, wall=WALL)
    assert steps(subject, 1.0) == []
