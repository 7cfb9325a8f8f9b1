"""docs/reference/limits.md: what one tenant, one node or one client may cost each process, read from the constants."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import controller.extender.clients
import controller.extender.server
import controller.extender.turns
import controller.placements
import controller.publisher
import controller.workloads
import dra.cel.nesting
import dra.engine.allocate.inventory
import dra.engine.kinds
import dra.engine.reservations.marks
import dra.kube.client
import dra.kube.discovery
import dra.kube.events
import dra.kube.sender
import dra.model.annotations
from dra.cli.reference import markdown
from dra.engine import record
from dra.engine.claims import listing, placements, stuck
from dra.serving.connections import Bounds
from dra.telemetry import endpoints


class Bound(NamedTuple):
    """One bound of one process."""

    limits: str
    """The noun that is bounded, and for whom."""

    value: str
    reached: str
    """Consequence when the bound is reached."""

    told: str
    """Where the consequence shows."""


_CLIENT: Final = (
    Bound(
        "requests to the API server under way at a time, watches and renewals of the lease not counted",
        str(dra.kube.sender.UNDER_WAY),
        "a request waits until another one is answered, up to its own deadline",
        "the log: `not sent in time`",
    ),
    Bound(
        "bytes of a page of a list; of a list that comes in one piece since the server forgot where its pages were",
        f"{dra.kube.client.PAGE_BYTES >> 20} MiB; {dra.kube.client.WHOLE_BYTES >> 20} MiB",
        f"no more is read; a page is asked for again with 1 in {dra.kube.client.FEWER} of its "
        f"{dra.kube.client.PAGE_SIZE} objects, then with fewer again; the list in one piece is begun again in pages",
        "the log: `the answer is longer than`",
    ),
)
"""Bounds of every process that talks to an API server."""

_DROPPED: Final = (
    "metric `dra_reserve_connections_dropped_total`, and the log once a minute with the address that has most"
)


def _listening(bounds: Bounds) -> tuple[Bound, ...]:
    """Return what the clients of a listener may cost."""
    return (
        Bound(
            "connections at a time",
            str(bounds.connections),
            "the oldest connection that waits for a request is closed, of the address that has most of them; where "
            "every connection is being answered, the new connection is closed",
            f"{_DROPPED} (`Crowded`, `Full`)",
        ),
        *(
            [
                Bound(
                    "connections at a time whose first request has not come",
                    str(bounds.opening),
                    "the oldest is closed, of the address that has most of them",
                    f"{_DROPPED} (`Crowded`)",
                )
            ]
            if bounds.opening < bounds.connections
            else []
        ),
        *(
            [
                Bound(
                    "new connections of one address",
                    f"{bounds.pace:g} a second, {2 * bounds.pace:g} at once",
                    "further connections of the address are closed",
                    f"{_DROPPED} (`Pace`)",
                )
            ]
            if bounds.pace is not None
            else []
        ),
        Bound(
            "time for the TLS handshake; for the first request, its body included; between two requests, or until an "
            "answer has been read" + ("; a connection is closed after one answer" if bounds.once else ""),
            f"{bounds.handshake:g} s; {bounds.request:g} s; {bounds.idle:g} s",
            "the connection is closed",
            f"{_DROPPED} (`Slow`)",
        ),
    )


_TELEMETRY: Final = (
    *_listening(endpoints.BOUNDS),
    Bound(
        "renderings of metrics",
        f"1 in {endpoints.RENDERED_FOR:g} s",
        "the text that was rendered last is given once more",
        "–",
    ),
)
"""Bounds of each port, that of the probes and that of the metrics."""

_EXTENDER: Final = (
    Bound(
        "characters of annotations kept in memory of each pod",
        f"{dra.model.annotations.FEW}",
        "only annotations that a rule reads are kept, each cut off after "
        f"{dra.engine.reservations.marks.LONGEST} characters",
        "–",
    ),
    Bound(
        "bindings under way at a time",
        f"{controller.extender.turns.LEAST} to {controller.extender.turns.MOST}, fewer on a slow API server: one third "
        f"less when a binding takes longer than {controller.extender.turns.SLOW:g} of `bindSeconds`",
        f"an answer to `filter` waits, up to {controller.extender.turns.HOLD:g} of `bindSeconds`, so that "
        "kube-scheduler starts no further binding; a binding that comes nevertheless waits for its turn until "
        f"{controller.extender.turns.LEFT:g} of `bindSeconds` is over, and is refused then, without any write",
        "metrics `dra_reserve_extender_binds_under_way` and `dra_reserve_extender_turns`; `bindings are under way on a "
        "slow API server` in the scheduler's Event on the pod",
    ),
    *_listening(controller.extender.server.BOUNDS),
    Bound(
        "bytes of one call",
        f"{controller.extender.server.LARGEST >> 20} MiB",
        "the call is answered with 413, and nothing of it is kept",
        "kube-scheduler's Event on the pod: `code 413`",
    ),
    Bound(
        "clients, where `tls.clientAuthority` is set",
        "those with a name of `tls.clientNames` (`kube-scheduler`)",
        "the call is answered with 403 before it is read",
        f"the log, for the first {controller.extender.clients.TOLD} names",
    ),
)

_MEMORY: Final = Bound(
    "characters of annotations kept in memory of each claim and pod",
    f"{dra.model.annotations.FEW}",
    "only annotations that a rule reads are kept, each cut off after "
    f"{dra.model.annotations.LONGEST} characters ({dra.engine.reservations.marks.LONGEST} of pods in Reservations); "
    "a held claim is not given to a pod whose template asks for other ones",
    "–",
)

_CONTROLLER: Final = (
    _MEMORY,
    Bound(
        "reads of nodes, devices and pods for rule 9, for all claims together",
        f"1 in {controller.placements.PAUSE:g} s, and a fifth of the time",
        "further questions are answered by the next read",
        "Event `AllocationUnusable` or `AllocationStuck` comes later",
    ),
    Bound(
        "seconds of work of rule 9, selectors of users included: in one go; for one claim; between two reads",
        f"{controller.placements.PIECE:g} s, and one selector for one device; {controller.placements.WORK:g} s; "
        f"{controller.placements.WORK:g} s",
        "everything else of the controller gets as long; the claim stays reserved; further questions are answered by "
        "the next read, those of namespaces first that have taken less",
        "Event `AllocationUnusable` on the claim: `takes more than`",
    ),
    Bound(
        "memory that rule 9 loses for good by selectors which call `quantity`, `semver`, `ip`, `cidr`, `url` or "
        "functions of their values (2 KiB for a comparison, and long texts as they are); for claims of one namespace",
        f"{controller.placements.LOST >> 20} MiB; {controller.placements.LOST_BY_NAMESPACE >> 20} MiB",
        "claims with such selectors stay reserved until the controller is started again",
        "Event `AllocationUnusable` on the claim: `have used up their memory`",
    ),
    Bound(
        "different selectors in the requests of a claim, and of the claims of the same pod, for rule 9",
        str(dra.engine.allocate.inventory.REMEMBERED),
        "the claim stays reserved",
        "Event `AllocationUnusable` on the claim: `selectors are more than`",
    ),
    Bound(
        "pods that rule 9 looks at for one claim; unlike ones among them; picks of the allocator for a node",
        f"{stuck.ASKED_ABOUT}; {placements.SHAPES}; {placements.STEPS:,}",
        "further pods are not looked at; a node on which the allocator gives up counts as one without devices",
        "Event `AllocationUnusable` on the claim",
    ),
    Bound(
        "listed pods that do not use the claim, read by one decision",
        str(listing.LOOKUPS),
        f"the others are read by the next decision; an answer is believed for {record.ANSWER_HOLDS:g} s",
        "–",
    ),
    Bound(
        "kinds of workloads watched for the claims of one namespace; kinds with a release rule and built-in kinds are "
        "not counted",
        str(dra.engine.kinds.KINDS_PER_NAMESPACE),
        "further kinds are not looked for, and their claims stay reserved, until a kind goes that no claim of the "
        "namespace names any more",
        "Event `WorkloadKindsExceeded` on the claim",
    ),
    Bound(
        "first looks for kinds under way at a time",
        str(controller.workloads.LOOKS),
        "further kinds wait for their turn; a kind that the API server does not serve is looked for again after "
        f"{controller.workloads.RETRY[0]:g} to {controller.workloads.RETRY[1]:g} s, "
        f"{1 / controller.workloads.BETWEEN_TURNS:g} kinds a second at most",
        "the claim has no entry of its workload yet",
    ),
    Bound(
        "Events that wait to be posted; namespaces take turns",
        str(dra.kube.events.QUEUE_MAX),
        "an Event of the namespace that has most of them is discarded; what it tells is told again after "
        f"{controller.publisher.AGAIN_AFTER / 60:g} minutes, if it still is the case",
        "metric `dra_reserve_events_discarded_total`",
    ),
    Bound(
        "iterations of a release rule for one object",
        "10,000",
        "the object counts as not finished; its claims stay reserved until it is deleted or its controller releases "
        "them; other objects of the kind are judged as before",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    Bound(
        f"objects of more than {controller.workloads.LARGE >> 10} KiB that a release rule is evaluated for",
        f"one at a time, half of the time at most; {controller.workloads.LARGE_DUE:,} wait, and namespaces take turns",
        "an object is judged as it is when its turn comes, its claims stay reserved until then; beyond that number an "
        "object of the namespace that has most of them counts as not finished until it is written again",
        "–",
    ),
    Bound(
        "levels of maps and lists in an object that a release rule is evaluated for",
        str(dra.cel.nesting.NESTING_MAX),
        "the same",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    Bound(
        "API groups whose kinds are remembered",
        str(dra.kube.discovery.GROUPS_MAX),
        "the oldest is forgotten, and asked for again when it is needed",
        "–",
    ),
)

PROCESSES: Final = {
    "Every process that talks to an API server": _CLIENT,
    "Every process that serves probes and metrics, for each of the two ports": _TELEMETRY,
    "The controller": _CONTROLLER,
    "The scheduler extender": _EXTENDER,
}


def page() -> str:
    """Return the page."""
    return markdown.page(
        "Limits",
        "Bounds on what one tenant, one node or one client may cost each process, and what happens when a bound is\n"
        "reached. None of them can be configured, unless the table names the field.\n",
        *(part for title, bounds in PROCESSES.items() for part in (f"## {title}\n", _table(bounds))),
    )


def _table(bounds: Iterable[Bound]) -> str:
    return markdown.table(("limited", "to", "when it is reached", "told by"), bounds)
