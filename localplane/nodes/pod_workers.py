"""The life of a pod on its node as a state machine: pure; takes the time, returns the next action.

::

    WAITING ──sandbox created─► RUNNING ──deleted──► TERMINATING ──stopped─► STOPPED ──claims unprepared─► TERMINATED
       ▲                         │   └────── all containers have ended for good ──►┘                           │
       └────── sandbox lost ─────┘                                                    deleted: the object goes ◄─┘

Rules, all of them the real kubelet's:
1. A terminal phase is reported only after the claims have been unprepared; the object is deleted after that.
2. A lost sandbox is reported (`PodReadyToStartContainers` False) before a new one is created; a pod that is never
   restarted fails instead.
3. A pod whose claims could not be prepared is retried after 60 to 90 seconds, or at once when anything but its status
   changes.
4. A forced deletion removes the object, not the containers: they keep the pod's grace period, and at least one second
   (``calculateEffectiveGracePeriod`` in pkg/kubelet/pod_workers.go).
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any, Final

from localplane.nodes.pod_types import KubeletPod
from localplane.nodes.programs import Program, program, stop_seconds

RETRY_SECONDS: Final = (60.0, 90.0)
"""Seconds until the kubelet's resync, minimum and maximum; failed preparations have no shorter backoff."""

CRASH_LOOP_BACKOFF_INITIAL: Final = 10.0
CRASH_LOOP_BACKOFF_MAX: Final = 300.0
"""Seconds before a container that has ended is started again: doubles from the initial to the maximum delay."""

CRASH_LOOP_BACKOFF_RESET: Final = 600.0
"""Seconds of running after which a container's restart delay is back at the initial value."""

SIGKILL_EXIT_CODE: Final = 137
SIGTERM_EXIT_CODE: Final = 143
"""Exit codes after SIGKILL and SIGTERM."""


class PodWorkerState(Enum):
    """The state of a pod on its node."""

    WAITING = auto()
    RUNNING = auto()
    TERMINATING = auto()
    STOPPED = auto()
    TERMINATED = auto()


class PodAction(Enum):
    """The next action of the kubelet for a pod."""

    CREATE_SANDBOX = auto()
    UNPREPARE = auto()
    UPDATE_STATUS = auto()
    DELETE_POD = auto()
    FORGET = auto()
    NONE = auto()


@dataclass(slots=True)
class ContainerRun:
    """The state of one container; `ends_at` is when the current run ends by itself, None if never or if not running."""

    name: str
    running: bool = False
    restarts: int = 0
    ends_at: float | None = None
    exit_code: int | None = None
    """Exit code of the last run that has ended."""
    started_monotonic: float = 0.0
    started_at: str = ""
    finished_at: str = ""
    restart_at: float | None = None
    """Time of the next start, if the container will be restarted."""
    failures: int = 0
    next_exit_code: int = 0
    """Exit code with which the current run will end."""
    number: int = 0
    """Number of starts so far; the exit of an earlier run is ignored."""


@dataclass(slots=True)
class PodWorker:
    """The state machine of one pod on its node."""

    pod: KubeletPod
    node: str
    address: str
    state: PodWorkerState = PodWorkerState.WAITING
    containers: list[ContainerRun] = field(default_factory=list)
    attempt_at: float = 0.0
    """Earliest time of the next attempt to create a sandbox."""
    stop_at: float = 0.0
    started_at: str = ""
    prepare_refused: bool = False
    object_deleted: bool = False
    """Whether the object no longer exists, for example after a forced deletion."""
    deletion_sent: bool = False
    """Whether the deletion of the object was requested."""
    reported_summary: object = None
    wake_at: float | None = None
    resources: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """``allocatedResourcesStatus`` of the containers, by their names."""
    runs_processes: bool = False
    """Whether the containers are processes, which end by themselves and not by a timer."""

    @property
    def has_sandbox(self) -> bool:
        """Report whether the pod has a ready sandbox."""
        return self.state in (PodWorkerState.RUNNING, PodWorkerState.TERMINATING)

    @property
    def never_started(self) -> bool:
        """Report whether no container was ever started."""
        return not self.containers

    @property
    def phase(self) -> str:
        """Return ``status.phase`` of the pod."""
        if self.state is PodWorkerState.TERMINATED:
            return "Succeeded" if self.containers and all(run.exit_code == 0 for run in self.containers) else "Failed"
        return "Pending" if self.never_started else "Running"

    def summary(self) -> object:
        """Return the content of the pod's status, to be compared with the last written one."""
        runs = tuple((run.running, run.restarts, run.exit_code) for run in self.containers)
        return (self.phase, self.has_sandbox, runs, self.prepare_refused and self.never_started, self.resources)


def next_action(worker: PodWorker, *, now: float, wall: str) -> PodAction:
    """Advance a pod to the current time and return the next action; `worker.wake_at` is when to check again."""
    worker.wake_at = None
    _begin_termination(worker, now=now, wall=wall)
    if worker.state is PodWorkerState.RUNNING:
        _sync_containers(worker, now=now, wall=wall)
    if worker.state is PodWorkerState.TERMINATING and _finish_termination(worker, now=now, wall=wall):
        worker.state = PodWorkerState.STOPPED
    if worker.state is PodWorkerState.STOPPED:
        return PodAction.UNPREPARE
    if worker.object_deleted:
        return PodAction.FORGET if worker.state is PodWorkerState.TERMINATED else PodAction.NONE
    if worker.reported_summary != worker.summary():
        return PodAction.UPDATE_STATUS
    if worker.state is PodWorkerState.TERMINATED:
        due = worker.pod.metadata.deleting and not worker.deletion_sent
        return PodAction.DELETE_POD if due else PodAction.NONE
    if worker.state is PodWorkerState.WAITING:
        if now >= worker.attempt_at:
            return PodAction.CREATE_SANDBOX
        worker.wake_at = worker.attempt_at
    return PodAction.NONE


def sandbox_created(worker: PodWorker, *, now: float, wall: str) -> None:
    """Record that the sandbox is ready, and start the containers."""
    worker.state = PodWorkerState.RUNNING
    worker.prepare_refused = False
    known = {run.name: run for run in worker.containers}
    worker.containers = [known.get(c.name) or ContainerRun(c.name) for c in worker.pod.spec.containers or ()]
    for run in worker.containers:
        if run.exit_code == 0 and worker.pod.spec.restart_policy == "OnFailure":
            continue  # it succeeded in the previous sandbox
        if run.started_at:
            run.restarts += 1
        _start_container(worker, run, now=now, wall=wall)


def container_adopted(worker: PodWorker, run: ContainerRun, *, started_monotonic: float, wall: str) -> None:
    """Record that a container was running before this process started."""
    _start_container(worker, run, now=started_monotonic, wall=wall)


def prepare_failed(worker: PodWorker, *, now: float, random: Random) -> None:
    """Record that the claims could not be prepared, and schedule the next attempt."""
    worker.prepare_refused = True
    worker.attempt_at = now + random.uniform(*RETRY_SECONDS)


def sandbox_lost(worker: PodWorker, *, now: float, wall: str) -> None:
    """Record that the sandbox is lost, and its containers with it."""
    if not worker.has_sandbox:
        return
    for run in worker.containers:
        if run.running:
            _record_exit(run, SIGKILL_EXIT_CODE, wall=wall)
        run.restart_at = None
    for_good = worker.state is PodWorkerState.TERMINATING or worker.pod.spec.restart_policy == "Never"
    worker.state = PodWorkerState.STOPPED if for_good else PodWorkerState.WAITING
    worker.attempt_at = now


def pod_updated(worker: PodWorker, *, now: float) -> None:
    """Make the next attempt due now, because the pod has changed beyond its status."""
    worker.attempt_at = min(worker.attempt_at, now)


def container_exited(
    worker: PodWorker, run: ContainerRun, *, number: int, exit_code: int, now: float, wall: str
) -> None:
    """Record that the process of a container has ended."""
    if not run.running or run.number != number:
        return
    run.ends_at, run.next_exit_code = now, exit_code
    if worker.state is PodWorkerState.TERMINATING:
        _record_exit(run, exit_code, wall=wall)


def _sync_containers(worker: PodWorker, *, now: float, wall: str) -> None:
    """End the containers whose time is up and start those whose restart delay is over."""
    policy = worker.pod.spec.restart_policy
    for run in worker.containers:
        if run.running and run.ends_at is not None and run.ends_at <= now:
            _record_exit(run, run.next_exit_code, wall=wall)
            if policy == "Always" or (policy == "OnFailure" and run.exit_code):
                run.failures = 0 if now - run.started_monotonic >= CRASH_LOOP_BACKOFF_RESET else run.failures
                run.restart_at = now + (
                    min(CRASH_LOOP_BACKOFF_INITIAL * 2.0 ** (run.failures - 1), CRASH_LOOP_BACKOFF_MAX)
                    if run.failures
                    else 0.0
                )
                run.failures += 1
        if run.restart_at is not None and run.restart_at <= now:
            run.restarts += 1
            _start_container(worker, run, now=now, wall=wall)
    if not any(run.running or run.restart_at is not None for run in worker.containers):
        worker.state = PodWorkerState.STOPPED
        return
    times = [t for run in worker.containers for t in (run.ends_at if run.running else run.restart_at,) if t is not None]
    worker.wake_at = min(times, default=None)


def _start_container(worker: PodWorker, run: ContainerRun, *, now: float, wall: str) -> None:
    container_program = Program(None) if worker.runs_processes else _container_program(worker.pod, run.name)
    run.number += 1
    run.running, run.restart_at, run.started_monotonic, run.started_at = True, None, now, wall
    run.ends_at = None if container_program.seconds is None else now + container_program.seconds
    run.next_exit_code = container_program.exit_code


def _record_exit(run: ContainerRun, code: int, *, wall: str) -> None:
    run.running, run.ends_at, run.exit_code, run.finished_at = False, None, code, wall


def _container_program(pod: KubeletPod, name: str) -> Program:
    for container in pod.spec.containers or ():
        if container.name == name:
            return program(container, pod.metadata.annotations, restart_policy=pod.spec.restart_policy)
    return Program(None)


def _begin_termination(worker: PodWorker, *, now: float, wall: str) -> None:
    """Begin to stop a deleted pod; a shorter grace period that comes later takes effect."""
    if not (worker.object_deleted or worker.pod.metadata.deleting):
        return
    grace = worker.pod.grace_seconds
    if worker.state is PodWorkerState.WAITING:
        worker.state = PodWorkerState.STOPPED
    elif worker.state is PodWorkerState.RUNNING:
        _sync_containers(worker, now=now, wall=wall)  # a container that ended by itself was not killed
        if worker.state is PodWorkerState.RUNNING:
            worker.state = PodWorkerState.TERMINATING
            takes = grace if worker.runs_processes else stop_seconds(worker.pod.metadata.annotations)
            for run in worker.containers:
                run.next_exit_code = (
                    SIGTERM_EXIT_CODE if takes <= grace and not worker.runs_processes else SIGKILL_EXIT_CODE
                )
                run.restart_at = None
            worker.stop_at = now + min(takes, grace)
    elif worker.state is PodWorkerState.TERMINATING:
        worker.stop_at = min(worker.stop_at, now + grace)


def _finish_termination(worker: PodWorker, *, now: float, wall: str) -> bool:
    """End the containers once their grace period is over; return whether all have ended."""
    if now < worker.stop_at and any(run.running for run in worker.containers):
        worker.wake_at = worker.stop_at
        return False
    for run in worker.containers:
        if run.running:
            _record_exit(run, run.next_exit_code, wall=wall)
    return True
