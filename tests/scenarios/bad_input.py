"""What people and other controllers get wrong about one claim: a table of rows, each with the Events that it causes.

Annotations of any kind and length, references to what is not there, lists edited by hand. A row plays on a claim of its
own, named like the row; `test_bad_input` plays all of them at once and then watches that nothing goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import ApiError, Json
from tests.scenarios.claims import bound, listed, started
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import FORCE_RELEASE, PRE_LIST, RESERVED_FOR, RESERVED_FOR_UID, WHEN_SUSPENDED, PodShape
from tests.scenarios.resources import CLAIMS, PODS
from tests.scenarios.target import Mode

ENTERED: Final = "reserve.dra/entered-allocation"
ANY_POD: Final = "reserve.dra/reserved-for-any-pod"

TRAIN: Final = "train"
"""A Job that exists, suspended; every row may refer to it."""

JOB: Final = f"jobs.batch/{TRAIN}"

HUGE: Final = "x" * 200_000
STRANGE: Final = "Zug\u2028\u202e-\U0001f682\u0007\u001b[31m\n"
MANY: Final = 300

OURS: Final = "reserve.dra"


@dataclass
class Stage:
    """Where the rows are played."""

    namespace: Namespace
    devices: str
    pool: str
    job: Json
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def claim(self, name: str, annotations: dict[str, str]) -> Json:
        """Create a claim, then annotate it: deploy/policies/guards.yaml refuses references to nothing at creation."""
        claim = await self.namespace.create(objects.claim(name, device_class=self.devices))
        return (
            await self.namespace.patch(CLAIMS, name, {"metadata": {"annotations": annotations}})
            if annotations
            else claim
        )

    async def allocated(self, name: str, *, annotations: dict[str, str], device: int | None = None) -> Json:
        """Create a claim and allocate a device of its own to it by hand, for nobody."""
        await self.claim(name, annotations)
        number = next(self.numbers) if device is None else device
        return await steps.allocate(
            self.namespace, name, devices=self.devices, pool=self.pool, device=f"device-{number}"
        )

    async def list_entries(self, name: str, *entries: Json) -> None:
        """Edit the list as with kubectl edit."""
        await self.namespace.patch_status(CLAIMS, name, {"reservedFor": [*entries]})


Play = Callable[[Stage, str], Awaitable[None]]

BOTH: Final = frozenset(Mode)
REPLACE: Final = frozenset({Mode.REPLACE})
ALONGSIDE: Final = frozenset({Mode.ALONGSIDE})


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mistake and what must be said about it, each Event once."""

    name: str
    play: Play
    told: tuple[str, ...] = ()
    modes: frozenset[Mode] = BOTH


# Annotations on a claim that nobody uses:


def annotated(**annotations: str) -> Play:
    """A claim with annotations of ours; names as in `_KEYS`."""

    async def play(stage: Stage, name: str) -> None:
        await stage.claim(name, {_KEYS[key]: value for key, value in annotations.items()})

    return play


_KEYS: Final = {
    "reserved_for": RESERVED_FOR,
    "uid": RESERVED_FOR_UID,
    "entered": ENTERED,
    "any_pod": ANY_POD,
    "pre_list": PRE_LIST,
    "when_suspended": WHEN_SUSPENDED,
    "force": FORCE_RELEASE,
    "resolved": "reserve.dra/resolved-uid",
}


def malformed(name: str, text: str) -> Row:
    """A reference that is none."""
    return Row(name=f"reference-{name}", play=annotated(reserved_for=text), told=("MalformedReference",))


MALFORMED: Final = (
    malformed("empty", ""),
    malformed("without-name", "jobs.batch"),
    malformed("without-kind", "/train"),
    malformed("ends-early", "jobs.batch/"),
    malformed("in-capitals", "Jobs.batch/train"),
    malformed("name-in-capitals", "jobs.batch/Train"),
    malformed("a-path", "batch/v1/jobs/train"),
    malformed("a-way-up", "jobs.batch/../secrets"),
    malformed("of-another-namespace", "kube-system/jobs.batch/train"),
    malformed("a-subresource", "pods/train/status"),
    malformed("with-a-space", " jobs.batch/train"),
    malformed("huge", HUGE),
    malformed("strange", f"jobs.batch/{STRANGE}"),
    malformed("json", '{"kind": "Job", "name": "train"}'),
)

UNKNOWN: Final = (
    Row(name="kind-unknown", play=annotated(reserved_for="unicorns.example.com/x"), told=("WorkloadKindUnknown",)),
    Row(name="kind-without-group", play=annotated(reserved_for="jobs/train"), told=("WorkloadKindUnknown",)),
    Row(name="kind-singular", play=annotated(reserved_for="job.batch/train"), told=("WorkloadKindUnknown",)),
    Row(name="kind-of-no-namespace", play=annotated(reserved_for="nodes/node-000"), told=("WorkloadKindUnknown",)),
    Row(name="kind-unreadable", play=annotated(reserved_for="secrets/x"), told=("WorkloadUnreadable",)),
    Row(name="kind-unreadable-too", play=annotated(reserved_for="configmaps/x"), told=("WorkloadUnreadable",)),
    Row(name="workload-missing", play=annotated(reserved_for="jobs.batch/later"), told=("WorkloadNotFound",)),
    Row(name="pod-missing", play=annotated(reserved_for="pods/later"), told=("WorkloadNotFound",)),
)

MARKS: Final = (
    Row(name="uid-alone", play=annotated(uid="0000")),
    Row(name="uid-of-nobody", play=annotated(reserved_for=JOB, uid="0000")),
    Row(name="uid-huge", play=annotated(reserved_for=JOB, uid=HUGE)),
    Row(name="uid-strange", play=annotated(reserved_for=JOB, uid=STRANGE)),
    Row(name="mark-by-hand", play=annotated(entered="0123456789abcdef", any_pod="true")),
    Row(name="mark-strange", play=annotated(reserved_for=JOB, entered=STRANGE, any_pod="maybe")),
    Row(name="mark-of-a-uid-alone", play=annotated(resolved="0000")),
    Row(name="pre-list-banana", play=annotated(pre_list="banana")),
    Row(name="when-suspended-banana", play=annotated(when_suspended="banana")),
    Row(name="force-without-uid", play=annotated(force="true"), told=("ForceReleaseIgnored",)),
    Row(name="force-huge", play=annotated(force=HUGE), told=("ForceReleaseIgnored",)),
    Row(name="force-strange", play=annotated(force=STRANGE), told=("ForceReleaseIgnored",)),
)


# Lists edited by hand, on a claim that is allocated and that no pod uses:


def listing(*entries: Json, **annotations: str) -> Play:
    """A claim with a list that somebody has written."""

    async def play(stage: Stage, name: str) -> None:
        await stage.allocated(name, annotations={_KEYS[key]: value for key, value in annotations.items()})
        await stage.list_entries(name, *entries)

    return play


def entry(resource: str, name: str, *, group: str = "", uid: str | None = None) -> Json:
    """An entry as somebody might write it."""
    made = {"resource": resource, "name": name, "uid": uid or f"uid-of-{name[:20]}"}
    return {"apiGroup": group, **made} if group else made


SUSPENDED: Final = "KeptWhileSuspended"
"""Told of a claim that stays allocated for the Job, which is suspended."""

FREED: Final = ("Deallocated",)
VANISHED: Final = ("PodsVanished",)
"""Nobody has seen the listed pod: it may have been deleted by force, and run for minutes. The devices follow later."""

KEPT: Final = ("KeptByForeignEntries",)


async def _refused(stage: Stage, name: str) -> None:
    await stage.allocated(name, annotations={})
    for nobody in (entry("pods", ""), {"resource": "pods", "name": "x"}, entry("", "x")):
        with pytest.raises(ApiError) as refused:
            await stage.list_entries(name, nobody)
        assert refused.value.status == 422


async def _guard_by_hand(stage: Stage, name: str) -> None:
    claim = await stage.allocated(name, annotations={})
    await stage.list_entries(name, entry("guards", name, group=OURS, uid=claim["metadata"]["uid"]))


async def _uid_of_the_claim(stage: Stage, name: str) -> None:
    claim = await stage.allocated(name, annotations={})
    await stage.list_entries(name, entry("widgets", "x", group="example.com", uid=claim["metadata"]["uid"]))


async def _workload_of_another_uid(stage: Stage, name: str) -> None:
    uid = stage.job["metadata"]["uid"]
    await stage.allocated(name, annotations={RESERVED_FOR: JOB, RESERVED_FOR_UID: uid})
    await stage.list_entries(name, entry("jobs", TRAIN, group="batch", uid="uid-of-another"))


async def _workload_under_another_kind(stage: Stage, name: str) -> None:
    """By uid it is the workload; what else the entry says is wrong."""
    uid = stage.job["metadata"]["uid"]
    await stage.allocated(name, annotations={RESERVED_FOR: JOB, RESERVED_FOR_UID: uid})
    await stage.list_entries(name, entry("deployments", "nobody", group="apps", uid=uid))


async def _device_of_another(stage: Stage, name: str) -> None:
    number = next(stage.numbers)
    await stage.allocated(f"{name}-first", annotations={}, device=number)
    await stage.allocated(name, annotations={}, device=number)


async def _finalizer_by_hand(stage: Stage, name: str) -> None:
    await stage.allocated(name, annotations={})
    await stage.namespace.patch(CLAIMS, name, {"metadata": {"finalizers": ["example.com/keep"]}})
    await stage.list_entries(name, entry("pods", "nobody"))


async def _deleted_with_a_foreign_finalizer(stage: Stage, name: str) -> None:
    await _finalizer_by_hand(stage, name)
    await stage.namespace.delete(CLAIMS, name)


async def _deleted_with_a_foreign_entry(stage: Stage, name: str) -> None:
    await stage.allocated(name, annotations={})
    await stage.list_entries(name, steps.foreign_entry("dam"))
    await stage.namespace.delete(CLAIMS, name)


async def _full_of_strangers(stage: Stage, name: str) -> None:
    await stage.allocated(name, annotations={})
    await stage.list_entries(name, *(steps.foreign_entry(f"dam-{number}") for number in range(256)))


WIDE: Final = entry("widgets", "y" * 5_000, group="example.com", uid="wide")

LISTS: Final = (
    Row(name="entry-of-nobody", play=listing(entry("pods", "nobody")), told=VANISHED, modes=REPLACE),
    Row(
        name="entries-of-one-name",
        play=listing(entry("pods", "twin", uid="1"), entry("pods", "twin", uid="2")),
        told=VANISHED,
        modes=REPLACE,
    ),
    Row(name="entry-with-an-impossible-name", play=listing(entry("pods", "../x Y")), told=FREED, modes=REPLACE),
    Row(name="entry-with-a-strange-name", play=listing(entry("pods", STRANGE)), told=FREED, modes=REPLACE),
    Row(name="entry-without-a-name", play=_refused),
    Row(name="guard-by-hand", play=_guard_by_hand, told=FREED),
    Row(name="guard-of-another", play=listing(entry("guards", "other", group=OURS)), told=FREED),
    Row(name="tombstone-by-hand", play=listing(entry("finishedpods", "nobody", group=OURS)), told=FREED),
    Row(name="lost-node-by-hand", play=listing(entry("lostnodes", "nowhere", group=OURS)), told=FREED),
    Row(
        name="lost-node-that-is-there",
        play=listing(entry("lostnodes", "node-000", group=OURS, uid="node-000/")),
        told=("NodeLost",),
    ),
    Row(name="entry-of-a-later-version-of-ours", play=listing(entry("later", "x", group=OURS)), told=KEPT),
    Row(name="foreign-entry", play=listing(steps.foreign_entry("dam")), told=KEPT),
    Row(name="foreign-entry-of-the-core-group", play=listing(entry("nodes", "node-000")), told=KEPT),
    Row(name="foreign-entry-huge", play=listing(WIDE), told=KEPT),
    Row(
        name="foreign-entry-strange",
        play=listing(entry(STRANGE, STRANGE, group=STRANGE, uid=STRANGE)),
        told=KEPT,
    ),
    Row(name="foreign-entry-with-the-claims-uid", play=_uid_of_the_claim, told=KEPT),
    Row(name="foreign-entries-all-slots", play=_full_of_strangers, told=KEPT),
    Row(name="workload-of-another-uid", play=_workload_of_another_uid, told=(*FREED, SUSPENDED)),
    Row(name="workload-under-another-kind", play=_workload_under_another_kind, told=(SUSPENDED,)),
    Row(
        name="mark-of-another-allocation",
        play=listing(reserved_for=JOB, entered="0123456789abcdef"),
        told=(SUSPENDED,),
    ),
    Row(name="device-of-another", play=_device_of_another, told=("DeviceHeldTwice",)),
    Row(name="finalizer-taken-off", play=_finalizer_by_hand, told=VANISHED, modes=REPLACE),
    Row(name="finalizer-foreign", play=_deleted_with_a_foreign_finalizer, told=VANISHED, modes=REPLACE),
    Row(name="deleted-with-a-foreign-entry", play=_deleted_with_a_foreign_entry, told=KEPT),
)


# Claims that pods use:


async def _uid_that_does_not_match(stage: Stage, name: str) -> None:
    await stage.claim(name, {RESERVED_FOR: JOB, RESERVED_FOR_UID: "uid-of-another"})
    await _run(stage, name)


async def _malformed_and_used(stage: Stage, name: str) -> None:
    await stage.claim(name, {RESERVED_FOR: "the Job train"})
    await _run(stage, name)


async def _tombstone_of_a_running_pod(stage: Stage, name: str) -> None:
    await stage.claim(name, {})
    pod = await _run(stage, name)
    await stage.list_entries(name, entry("finishedpods", name, group=OURS, uid=pod["metadata"]["uid"]))
    await steps.claim_is(stage.namespace, name, lambda claim: listed(claim) == {name}, saying="its entry is back")


async def _foreign_entry_with_a_pods_uid(stage: Stage, name: str) -> None:
    await stage.claim(name, {})
    pod = await _run(stage, name)
    await stage.list_entries(name, entry("widgets", "x", group="example.com", uid=pod["metadata"]["uid"]))


async def _stranger(stage: Stage, name: str) -> None:
    """A pod is listed that does not name the claim."""
    await stage.allocated(name, annotations={})
    pod = await stage.namespace.create(objects.pod(name, PodShape()))
    await stage.list_entries(name, steps.entry(pod, "pods"))


async def _reference_taken_off(stage: Stage, name: str) -> None:
    await stage.claim(name, {RESERVED_FOR: JOB})
    await _run(stage, name)
    await steps.told(stage.namespace, name, "ReservedForWorkload")
    await stage.namespace.patch(CLAIMS, name, {"metadata": {"annotations": {RESERVED_FOR: None}}})


async def _reference_changed(stage: Stage, name: str) -> None:
    await stage.claim(name, {RESERVED_FOR: JOB})
    await _run(stage, name)
    await steps.told(stage.namespace, name, "ReservedForWorkload")
    await stage.namespace.patch(CLAIMS, name, {"metadata": {"annotations": {RESERVED_FOR: "jobs.batch/later"}}})


async def _too_many(stage: Stage, name: str) -> None:
    await stage.claim(name, {})
    await stage.namespace.create_all(objects.pods(name, MANY, PodShape(claim=name, gated=True, labels={"of": name})))
    await eventually(
        lambda: stage.namespace.all(PODS, labelSelector=f"of={name}"),
        until=lambda pods: sum(map(started, pods)) == 255 and sum(map(bound, pods)) == 255,
        within=90,
        saying="as many run as there are slots",
    )


async def _run(stage: Stage, name: str) -> Json:
    pod = await stage.namespace.create(objects.pod(name, PodShape(claim=name, gated=True)))
    await steps.pods_run(stage.namespace, name, within=60)
    return pod


USED: Final = (
    Row(name="uid-that-does-not-match", play=_uid_that_does_not_match, told=("WorkloadGone",)),
    Row(name="reference-malformed-and-used", play=_malformed_and_used, told=("MalformedReference",)),
    Row(name="tombstone-of-a-running-pod", play=_tombstone_of_a_running_pod),
    Row(name="foreign-entry-with-a-pods-uid", play=_foreign_entry_with_a_pods_uid),
    Row(name="entry-of-a-pod-that-names-no-claim", play=_stranger, told=KEPT),
    Row(name="reference-taken-off", play=_reference_taken_off, told=("ReservedForWorkload",)),
    Row(name="reference-changed", play=_reference_changed, told=("ReservedForWorkload", "WorkloadNotFound")),
    Row(name="three-hundred-consumers", play=_too_many, told=("ConsumerLimit",), modes=ALONGSIDE),
)

ROWS: Final = (*MALFORMED, *UNKNOWN, *MARKS, *LISTS, *USED)
