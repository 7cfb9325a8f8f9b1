"""The life of a pod on its node, as a state machine: pure, told the time, tells what is to be done next.

::

    WAITING ──sandbox made──► UP ──asked to stop──► STOPPING ──stopped or killed──► ENDED ──devices given back──► DONE
       ▲                      │ └──────────── all containers have ended for good ──►┘                              │
       └──── sandbox lost ────┘                                                        deleted: the object goes ◄──┘

Rules, all of them the real kubelet's:
1. A terminal phase is told only after the devices have been given back, and the object is removed after that.
2. A lost sandbox is told (`PodReadyToStartContainers` False) before a new one is tried; a pod that is never restarted
   fails instead.
3. A refused pod is tried again after 60 to 90 seconds, or at once when anything but its status changes.
4. A deletion by force removes the object, not the containers: they have the pod's grace period, and a second at least
   (``calculateEffectiveGracePeriod`` in pkg/kubelet/pod_workers.go).
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Any, Final

from dra.local.nodes.manifests import Pod
from dra.local.nodes.programs import Program, program, stop_seconds

RETRY_SECONDS: Final = (60.0, 90.0)
"""The kubelet's resync; there is no shorter backoff for refused devices."""

CRASH_FIRST: Final = 10.0
CRASH_LAST: Final = 300.0
"""Delay before a container that has ended is started again: doubles from the first to the last."""

CRASH_FORGIVEN: Final = 600.0
"""A container that ran this long starts over with the shortest delay."""

KILLED: Final = 137
STOPPED: Final = 143
"""Exit codes after SIGKILL and SIGTERM."""


class Stage(Enum):
    """Where a pod stands."""

    WAITING = auto()
    UP = auto()
    STOPPING = auto()
    ENDED = auto()
    DONE = auto()


class Step(Enum):
    """What its kubelet has to do now."""

    START = auto()
    RELEASE = auto()
    REPORT = auto()
    REMOVE = auto()
    FORGET = auto()
    REST = auto()


@dataclass(slots=True)
class Run:
    """One container. `ends` is when the present run will end by itself, None if never or not running."""

    name: str
    running: bool = False
    restarts: int = 0
    ends: float | None = None
    exit_code: int | None = None
    """Of the last run that has ended."""
    began: float = 0.0
    started_at: str = ""
    finished_at: str = ""
    again: float | None = None
    """When it will be started again."""
    failures: int = 0
    outcome: int = 0
    """The code with which the present run will end."""
    number: int = 0
    """How often it has been started: news of an earlier run are none."""


@dataclass(slots=True)
class Resident:
    """A pod on its node."""

    pod: Pod
    node: str
    address: str
    stage: Stage = Stage.WAITING
    runs: list[Run] = field(default_factory=list)
    attempt_at: float = 0.0
    """When making a sandbox is to be tried, at the earliest."""
    stop_at: float = 0.0
    started_at: str = ""
    refused: bool = False
    gone: bool = False
    """Whether the object was deleted by force."""
    removed: bool = False
    """Whether we have asked for the removal of the object."""
    reported: object = None
    wake: float | None = None
    resources: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """``allocatedResourcesStatus`` of its containers, by their names."""
    real: bool = False
    """Whether its containers are processes, which end when they do and not by a timer."""

    @property
    def sandbox(self) -> bool:
        """Whether it has one that is ready."""
        return self.stage in (Stage.UP, Stage.STOPPING)

    @property
    def never_ran(self) -> bool:
        """Whether no container was ever started."""
        return not self.runs

    @property
    def phase(self) -> str:
        """``status.phase``."""
        if self.stage is Stage.DONE:
            return "Succeeded" if self.runs and all(run.exit_code == 0 for run in self.runs) else "Failed"
        return "Pending" if self.never_ran else "Running"

    def summary(self) -> object:
        """Return what its status says, for comparison."""
        runs = tuple((run.running, run.restarts, run.exit_code) for run in self.runs)
        return (self.phase, self.sandbox, runs, self.refused and self.never_ran, self.resources)


def advance(resident: Resident, *, now: float, wall: str) -> Step:
    """Let time pass for a pod and return the next thing to be done; `resident.wake` tells when to look again."""
    resident.wake = None
    _stop_if_asked(resident, now=now, wall=wall)
    if resident.stage is Stage.UP:
        _run(resident, now=now, wall=wall)
    if resident.stage is Stage.STOPPING and _stopped(resident, now=now, wall=wall):
        resident.stage = Stage.ENDED
    if resident.stage is Stage.ENDED:
        return Step.RELEASE
    if resident.gone:
        return Step.FORGET if resident.stage is Stage.DONE else Step.REST
    if resident.reported != resident.summary():
        return Step.REPORT
    if resident.stage is Stage.DONE:
        due = resident.pod.metadata.deleting and not resident.removed
        return Step.REMOVE if due else Step.REST
    if resident.stage is Stage.WAITING:
        if now >= resident.attempt_at:
            return Step.START
        resident.wake = resident.attempt_at
    return Step.REST


def started(resident: Resident, *, now: float, wall: str) -> None:
    """The sandbox is ready: start the containers."""
    resident.stage = Stage.UP
    resident.refused = False
    known = {run.name: run for run in resident.runs}
    resident.runs = [known.get(c.name) or Run(c.name) for c in resident.pod.spec.containers or ()]
    for run in resident.runs:
        if run.exit_code == 0 and resident.pod.spec.restart_policy == "OnFailure":
            continue  # it did what it had to in the sandbox before
        if run.started_at:
            run.restarts += 1
        _start(resident, run, now=now, wall=wall)


def resumed(resident: Resident, run: Run, *, began: float, wall: str) -> None:
    """A container runs that was started before our time."""
    _start(resident, run, now=began, wall=wall)


def refused(resident: Resident, *, now: float, chance: Random) -> None:
    """The devices could not be prepared: try again later."""
    resident.refused = True
    resident.attempt_at = now + chance.uniform(*RETRY_SECONDS)


def lost(resident: Resident, *, now: float, wall: str) -> None:
    """The sandbox is gone, and the containers with it."""
    if not resident.sandbox:
        return
    for run in resident.runs:
        if run.running:
            _end(run, KILLED, wall=wall)
        run.again = None
    for_good = resident.stage is Stage.STOPPING or resident.pod.spec.restart_policy == "Never"
    resident.stage = Stage.ENDED if for_good else Stage.WAITING
    resident.attempt_at = now


def changed(resident: Resident, *, now: float) -> None:
    """Something but the status of the pod has changed: its kubelet looks at it now."""
    resident.attempt_at = min(resident.attempt_at, now)


def ended(resident: Resident, run: Run, *, number: int, exit_code: int, now: float, wall: str) -> None:
    """A container that is a process has ended."""
    if not run.running or run.number != number:
        return
    run.ends, run.outcome = now, exit_code
    if resident.stage is Stage.STOPPING:
        _end(run, exit_code, wall=wall)


def _run(resident: Resident, *, now: float, wall: str) -> None:
    """End the containers whose time has come, start those whose delay is over."""
    policy = resident.pod.spec.restart_policy
    for run in resident.runs:
        if run.running and run.ends is not None and run.ends <= now:
            _end(run, run.outcome, wall=wall)
            if policy == "Always" or (policy == "OnFailure" and run.exit_code):
                run.failures = 0 if now - run.began >= CRASH_FORGIVEN else run.failures
                run.again = now + (min(CRASH_FIRST * 2.0 ** (run.failures - 1), CRASH_LAST) if run.failures else 0.0)
                run.failures += 1
        if run.again is not None and run.again <= now:
            run.restarts += 1
            _start(resident, run, now=now, wall=wall)
    if not any(run.running or run.again is not None for run in resident.runs):
        resident.stage = Stage.ENDED
        return
    times = [t for run in resident.runs for t in (run.ends if run.running else run.again,) if t is not None]
    resident.wake = min(times, default=None)


def _start(resident: Resident, run: Run, *, now: float, wall: str) -> None:
    does = Program(None) if resident.real else _program(resident.pod, run.name)
    run.number += 1
    run.running, run.again, run.began, run.started_at = True, None, now, wall
    run.ends = None if does.seconds is None else now + does.seconds
    run.outcome = does.exit_code


def _end(run: Run, code: int, *, wall: str) -> None:
    run.running, run.ends, run.exit_code, run.finished_at = False, None, code, wall


def _program(pod: Pod, name: str) -> Program:
    for container in pod.spec.containers or ():
        if container.name == name:
            return program(container, pod.metadata.annotations, restart_policy=pod.spec.restart_policy)
    return Program(None)


def _stop_if_asked(resident: Resident, *, now: float, wall: str) -> None:
    """Begin to stop a pod that is deleted; a shorter grace period that comes later counts."""
    if not (resident.gone or resident.pod.metadata.deleting):
        return
    grace = resident.pod.grace_seconds
    if resident.stage is Stage.WAITING:
        resident.stage = Stage.ENDED
    elif resident.stage is Stage.UP:
        _run(resident, now=now, wall=wall)  # what has ended by itself has not been killed
        if resident.stage is Stage.UP:
            resident.stage = Stage.STOPPING
            takes = grace if resident.real else stop_seconds(resident.pod.metadata.annotations)
            for run in resident.runs:
                run.outcome = STOPPED if takes <= grace and not resident.real else KILLED
                run.again = None
            resident.stop_at = now + min(takes, grace)
    elif resident.stage is Stage.STOPPING:
        resident.stop_at = min(resident.stop_at, now + grace)


def _stopped(resident: Resident, *, now: float, wall: str) -> bool:
    """End the containers when their time is up."""
    if now < resident.stop_at and any(run.running for run in resident.runs):
        resident.wake = resident.stop_at
        return False
    for run in resident.runs:
        if run.running:
            _end(run, run.outcome, wall=wall)
    return True
