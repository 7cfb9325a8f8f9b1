"""The decided differences from Koordinator 1.6.0: cases that end otherwise, and details that differ everywhere.

Each names a row of KEP-notes.md by the words of its first column, without ``PodMigrationJob: ``. A difference that no
entry covers fails the comparison, and so does an entry without a difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

BUDGETS: Final = "a PodDisruptionBudget is first heeded by the eviction"
REPLICAS: Final = "a workload with one replica is refused"
STATEFUL: Final = "the object limiter counts evictions in memory"
BATCH: Final = "pods of a workload without a subresource `scale`"
UNSCHEDULABLE: Final = "a Reservation that cannot be scheduled is waited for"
PAUSED: Final = "`paused` stops the time to live"
ADMISSION: Final = "an unknown `mode` is ReservationFirst"
UID: Final = "`podRef.uid` is overwritten"
SUPPLIED: Final = "a Reservation of `reservationRef` is taken as it is"
COST: Final = "`eviction-cost` is read from the annotation alone"
TWO_JOBS: Final = "two jobs of people for one pod both migrate the pod"
LIMITER: Final = "a job that waits for a limit says nothing"
SCHEDULER: Final = "a pod of a scheduler that does not know Reservations"
MESSAGES: Final = "a refused job says"
TEMPLATE_COPY: Final = "the Reservation's template is copied"
TEMPLATE: Final = "the template of the Reservation is the whole pod"
OWNER: Final = "the Reservation is deleted with its job"
NO_TTL: Final = "a job without `ttl`"
BARE: Final = "a pod without a controller"

REPLACED: Final = "JOB Succeeded/Complete, POD deleted and replaced in the Reservation, reservation JOB-UID Succeeded"
REFUSED: Final = "JOB refused, POD Running"
FORBIDDEN: Final = "JOB Failed/ForbiddenMigratePod, POD Running"


@dataclass(frozen=True, kw_only=True)
class OtherOutcome:
    """A case that ends otherwise than on Koordinator; the details that follow from this are not compared."""

    row: str
    """First column of the row in KEP-notes.md."""
    ours: dict[str, str] = field(default_factory=dict)
    """Our outcome by stage, of the stages that differ, as a pattern."""


OTHER_OUTCOMES: Final[dict[str, OtherOutcome]] = {
    "one-replica": OtherOutcome(row=REPLICAS, ours={"end": REPLACED}),
    "stateful-set": OtherOutcome(row=STATEFUL, ours={"end": REPLACED}),
    "batch-job": OtherOutcome(row=BATCH, ours={"end": REPLACED}),
    "pending-pod": OtherOutcome(
        row=UNSCHEDULABLE,
        ours=dict.fromkeys(("no node fits", "end"), "JOB Failed/ReservationScheduled/Unschedulable, POD Pending"),
    ),
    "unschedulable": OtherOutcome(
        row=UNSCHEDULABLE,
        ours=dict.fromkeys(("no other node fits", "end"), "JOB Failed/ReservationScheduled/Unschedulable, POD Running"),
    ),
    "pod-ref-without-namespace": OtherOutcome(row=ADMISSION, ours={"end": REFUSED}),
    "unknown-mode": OtherOutcome(row=ADMISSION, ours={"end": REFUSED}),
    "negative-ttl": OtherOutcome(row=ADMISSION, ours={"end": REFUSED}),
    "unknown-policy": OtherOutcome(row=ADMISSION, ours={"end": REFUSED}),
    "pod-ref-with-another-uid": OtherOutcome(row=UID, ours={"end": "JOB Failed/MissingPod, POD Running"}),
    "supplied-reservation-that-is-used": OtherOutcome(
        row=SUPPLIED, ours={"end": f"{FORBIDDEN}, reservation NAMESPACE-room Succeeded"}
    ),
    "supplied-reservation-on-the-same-node": OtherOutcome(
        row=SUPPLIED, ours={"end": f"{FORBIDDEN}, reservation NAMESPACE-room Available"}
    ),
    "supplied-reservation-that-is-missing": OtherOutcome(
        row=SUPPLIED, ours={"end": "JOB Failed/MissingReservation, POD Running"}
    ),
    "paused": OtherOutcome(row=PAUSED, ours={"paused for longer than the ttl": "JOB Failed/Timeout, POD Running"}),
    "paused-and-resumed": OtherOutcome(row=PAUSED, ours={"paused": "JOB Pending/Paused, POD Running"}),
    "ttl-while-a-budget-refuses": OtherOutcome(row=BUDGETS, ours={"end": "JOB Failed/Timeout, POD Running"}),
    "budget-refuses-then-allows": OtherOutcome(
        row=BUDGETS, ours={"the budget allows 0": "JOB Pending/PodDisruptionBudget, POD Running"}
    ),
    "pod-deleted-while-a-budget-refuses": OtherOutcome(
        row=BUDGETS,
        ours={
            "the budget allows 0": "JOB Pending/PodDisruptionBudget, POD Running",
            # The first of the two that the descheduler sees: the pod is terminating, or gone.
            "end": "JOB Failed/(ForbiddenMigratePod|MissingPod), POD deleted and replaced",
        },
    ),
    "eviction-cost-as-label": OtherOutcome(row=COST, ours={"end": FORBIDDEN}),
    "two-jobs-for-one-pod": OtherOutcome(
        row=TWO_JOBS,
        ours={
            "end": "JOB Failed/ReservationScheduled/Unschedulable, JOB-2 Failed/ForbiddenMigratePod, POD Running",
        },
    ),
    "two-pods-of-one-workload": OtherOutcome(
        row=LIMITER,
        ours={
            "end": "JOB Succeeded/Complete, JOB-2 Pending/ObjectLimiter, POD deleted and replaced in the Reservation, "
            "POD-2 Running and replaced in the Reservation, reservation JOB-UID Succeeded"
        },
    ),
    "unknown-scheduler": OtherOutcome(row=SCHEDULER, ours={"end": FORBIDDEN}),
}


@dataclass(frozen=True, kw_only=True)
class OtherDetail:
    """A detail that differs although the outcome is the same, as a pattern of whole lines of the comparison."""

    row: str
    lines: str
    cases: tuple[str, ...] = ()
    """The only cases with the difference; empty for all cases."""

    def covers(self, case: str, line: str) -> bool:
        """Return whether the difference is the decided one."""
        return (not self.cases or case in self.cases) and re.fullmatch(self.lines, line) is not None


JOB: Final = r"[\w ]+/jobs/JOB"
RESERVATION: Final = r"[\w ]+/reservations/(JOB-UID|NAMESPACE-room)"

OTHER_DETAILS: Final[tuple[OtherDetail, ...]] = (
    OtherDetail(
        row=MESSAGES,
        lines=rf"{JOB}/status/message: (Pod .* does not meet the requirements|Abort job caused by .*) -> .+",
    ),
    OtherDetail(row=MESSAGES, lines=rf"{JOB}/status/conditions/\w+/message: .+ -> .+"),
    OtherDetail(row=MESSAGES, lines=rf"{RESERVATION}/status/conditions/(Ready|Scheduled)/message: absent -> .+"),
    OtherDetail(
        row=MESSAGES,
        lines=rf"{JOB}/status/conditions/Eviction/reason: Evicting -> Timeout",
        cases=("policy-soft-eviction",),
    ),
    OtherDetail(
        row=MESSAGES,
        lines=r"events: [-+] PodMigrationJob JOB: "
        r"(Warning \w+|Normal Evicting|Normal PodBoundReservation|Normal BoundPodReady): .+",
    ),
    OtherDetail(row=MESSAGES, lines=r"course/JOB: \+ Running / PodBoundReservation / -"),
    OtherDetail(row=MESSAGES, lines=r"course/JOB: - Running / Eviction / EvictComplete", cases=("evict-directly",)),
    OtherDetail(row=TEMPLATE_COPY, lines=rf"{JOB}/changes of spec/mode: absent -> (ReservationFirst|EvictDirectly)"),
    OtherDetail(row=TEMPLATE_COPY, lines=rf"{JOB}/changes of spec/reservationOptions/template(/.+)?: .+ -> .+"),
    OtherDetail(
        row=TEMPLATE_COPY,
        lines=rf"{JOB}/changes of spec/reservationOptions/reservationRef/(apiVersion|kind): absent -> .+",
    ),
    OtherDetail(row=NO_TTL, lines=rf"{JOB}/changes of spec/ttl: absent -> 5m0s", cases=("no-ttl",)),
    OtherDetail(row=NO_TTL, lines=rf"{RESERVATION}/spec/ttl: 24h -> 5m", cases=("no-ttl",)),
    OtherDetail(
        row=TEMPLATE,
        lines=rf"{RESERVATION}/spec/template/metadata/(generateName|name|others): .+ -> absent",
    ),
    OtherDetail(
        row=TEMPLATE,
        lines=rf'{RESERVATION}/spec/owners: .+"blockOwnerDeletion": true.+'
        r' -> (?!.*blockOwnerDeletion).+"kind": "ReplicaSet".+',
    ),
    OtherDetail(
        row=OWNER,
        lines=rf'{RESERVATION}/owner references: absent -> \[{{"controller": true, "kind": "PodMigrationJob"}}\]',
    ),
    OtherDetail(
        row=OWNER,
        lines=rf"{RESERVATION}/metadata/labels/app.kubernetes.io/created-by: "
        "koord-descheduler -> dra-reserve-descheduler",
    ),
    OtherDetail(
        row=LIMITER, lines=rf"{JOB}/metadata/annotations/reserve.dra/migrated-workload: absent -> CONTROLLER-UID"
    ),
    OtherDetail(
        row=BARE,
        lines=rf"course/JOB: \+ Running / - / -|{JOB}/changes of spec/podRef/\w+: absent -> .+"
        rf"|{JOB}/metadata/annotations/descheduler.koordinator.sh/passed-arbitration: absent -> true",
        cases=("bare-pod",),
    ),
    OtherDetail(
        row=MESSAGES,
        lines=rf"{JOB}/metadata/annotations/descheduler.koordinator.sh/passed-arbitration: true -> absent",
        cases=("missing-pod",),
    ),
)
