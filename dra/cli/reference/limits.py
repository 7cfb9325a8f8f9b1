"""docs/reference/limits.md: the costs that one tenant, node or client may cause each process, from the constants."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import controller.claim_events
import controller.extender.client_authorization
import controller.extender.server
import dra.cel.expressions
import dra.engine.allocator.resource_slice_tracker
import dra.engine.claims.workload_kinds
import dra.kube.client
import dra.kube.discovery
import dra.kube.events
import dra.kube.sender
import dra.model.annotations
from controller import placement_reader, workload_informers
from controller.extender import binding_limiter
from dra.api.reservations import well_known
from dra.cli.reference import markdown
from dra.engine.claims import claim_state, consumer_entries, placements, stuck_allocations
from dra.httpserver.connections import ConnectionLimits
from dra.telemetry import telemetry_server


class ProcessLimit(NamedTuple):
    """A limit of one process."""

    limits: str
    """The resource that is limited, and for which user of it."""

    value: str
    consequence: str
    """Consequence when the bound is reached."""

    reported_by: str
    """The place where the consequence is visible."""


_CLIENT: Final = (
    ProcessLimit(
        "requests to the API server under way at a time, watches and renewals of the lease not counted",
        str(dra.kube.sender.MAX_IN_FLIGHT),
        "a request waits until another one is answered, up to its own deadline",
        "the log: `not sent in time`",
    ),
    ProcessLimit(
        "bytes of a page of a list; of a list that comes in one piece since the server forgot where its pages were",
        f"{dra.kube.client.PAGE_BYTES_MAX >> 20} MiB; {dra.kube.client.LIST_BYTES_MAX >> 20} MiB",
        f"no more is read; a page is asked for again with 1 in {dra.kube.client.PAGE_SHRINK_FACTOR} of its "
        f"{dra.kube.client.PAGE_SIZE} objects, then with fewer again; the list in one piece is begun again in pages",
        "the log: `the response is longer than`",
    ),
)
"""Bounds of every process that talks to an API server."""

_DROPPED: Final = (
    "metric `dra_reserve_connections_dropped_total`, and the log once a minute with the address that has most"
)


def _listening(bounds: ConnectionLimits) -> tuple[ProcessLimit, ...]:
    """Return the limits for the clients of a listener."""
    return (
        ProcessLimit(
            "connections at a time",
            str(bounds.connections),
            "the oldest connection that waits for a request is closed, of the address that has most of them; where "
            "every connection is being answered, the new connection is closed",
            f"{_DROPPED} (`Crowded`, `Full`)",
        ),
        *(
            [
                ProcessLimit(
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
                ProcessLimit(
                    "new connections of one address",
                    f"{bounds.pace:g} a second, {2 * bounds.pace:g} at once",
                    "further connections of the address are closed",
                    f"{_DROPPED} (`Pace`)",
                )
            ]
            if bounds.pace is not None
            else []
        ),
        ProcessLimit(
            "time for the TLS handshake; for the first request, its body included; between two requests, or until an "
            "answer has been read" + ("; a connection is closed after one answer" if bounds.once else ""),
            f"{bounds.handshake:g} s; {bounds.request:g} s; {bounds.idle:g} s",
            "the connection is closed",
            f"{_DROPPED} (`Slow`)",
        ),
    )


_TELEMETRY: Final = (
    *_listening(telemetry_server.CONNECTION_LIMITS),
    ProcessLimit(
        "renderings of metrics",
        f"1 in {telemetry_server.RENDER_CACHE_SECONDS:g} s",
        "the text that was rendered last is given once more",
        "–",
    ),
)
"""Bounds of each port, that of the probes and that of the metrics."""

_EXTENDER: Final = (
    ProcessLimit(
        "characters of annotations kept in memory of each pod",
        f"{dra.model.annotations.RETAIN_ALL_MAX_CHARACTERS}",
        "only annotations that a rule reads are kept, each cut off after "
        f"{well_known.MAX_ANNOTATION_LENGTH} characters",
        "–",
    ),
    ProcessLimit(
        "bindings under way at a time",
        f"{binding_limiter.LIMIT_MIN} to {binding_limiter.LIMIT_MAX}, fewer on a slow API server: one third less "
        f"when a binding takes longer than {binding_limiter.SLOW_SHARE:g} of `bindSeconds`",
        f"an answer to `filter` waits, up to {binding_limiter.FILTER_WAIT_SHARE:g} of `bindSeconds`, so that "
        "kube-scheduler starts no further binding; a binding that comes nevertheless waits for its turn until "
        f"{binding_limiter.REMAINING_SHARE:g} of `bindSeconds` is over, and is refused then, without any write",
        "metrics `dra_reserve_extender_binds_under_way` and `dra_reserve_extender_turns`; `bindings are under way on a "
        "slow API server` in the scheduler's Event on the pod",
    ),
    *_listening(controller.extender.server.CONNECTION_LIMITS),
    ProcessLimit(
        "bytes of one call",
        f"{controller.extender.server.REQUEST_BYTES_MAX >> 20} MiB",
        "the call is answered with 413, and nothing of it is kept",
        "kube-scheduler's Event on the pod: `code 413`",
    ),
    ProcessLimit(
        "clients, where `tls.clientAuthority` is set",
        "those with a name of `tls.clientNames` (`kube-scheduler`)",
        "the call is answered with 403 before it is read",
        f"the log, for the first {controller.extender.client_authorization.LOGGED_CLIENTS_MAX} names",
    ),
)

_MEMORY: Final = ProcessLimit(
    "characters of annotations kept in memory of each claim and pod",
    f"{dra.model.annotations.RETAIN_ALL_MAX_CHARACTERS}",
    "only annotations that a rule reads are kept, each cut off after "
    f"{dra.model.annotations.RETAINED_VALUE_MAX_CHARACTERS} characters "
    f"({well_known.MAX_ANNOTATION_LENGTH} of pods in Reservations); "
    "a held claim is not given to a pod whose template asks for other ones",
    "–",
)

_CONTROLLER: Final = (
    _MEMORY,
    ProcessLimit(
        "reads of nodes, devices and pods for rule 9, for all claims together",
        f"1 in {placement_reader.READ_PAUSE_MIN:g} s, and a fifth of the time",
        "further questions are answered by the next read",
        "Event `AllocationUnusable` or `AllocationStuck` comes later",
    ),
    ProcessLimit(
        "seconds of work of rule 9, selectors of users included: in one go; for one claim; between two reads",
        f"{placement_reader.TIME_SLICE:g} s, and one selector for one device; {placement_reader.TIME_BUDGET:g} s; "
        f"{placement_reader.TIME_BUDGET:g} s",
        "everything else of the controller gets as long; the claim stays reserved; further questions are answered by "
        "the next read, those of namespaces first that have taken less",
        "Event `AllocationUnusable` on the claim: `took more than`",
    ),
    ProcessLimit(
        "memory that rule 9 loses for good by selectors which call `quantity`, `semver`, `ip`, `cidr`, `url` or "
        "functions of their values (2 KiB for a comparison, and long texts as they are); for claims of one namespace",
        f"{placement_reader.LEAK_LIMIT >> 20} MiB; {placement_reader.LEAK_LIMIT_PER_NAMESPACE >> 20} MiB",
        "claims with such selectors stay reserved until the controller is started again",
        "Event `AllocationUnusable` on the claim: `have used up their memory`",
    ),
    ProcessLimit(
        "different selectors in the requests of a claim, and of the claims of the same pod, for rule 9",
        str(dra.engine.allocator.resource_slice_tracker.SELECTOR_RESULTS_MAX),
        "the claim stays reserved",
        "Event `AllocationUnusable` on the claim: `selectors are more than`",
    ),
    ProcessLimit(
        "pods that rule 9 looks at for one claim; unlike ones among them; picks of the allocator for a node",
        f"{stuck_allocations.LOOKUP_PODS}; {placements.MAX_SHAPES}; {placements.MAX_STEPS:,}",
        "further pods are not looked at; a node on which the allocator gives up counts as one without devices",
        "Event `AllocationUnusable` on the claim",
    ),
    ProcessLimit(
        "listed pods that do not use the claim, read by one decision",
        str(consumer_entries.LOOKUP_BATCH),
        f"the others are read by the next decision; an answer is believed for {claim_state.LIVE_READ_VALID:g} s",
        "–",
    ),
    ProcessLimit(
        "kinds of workloads watched for the claims of one namespace; kinds with a release rule and built-in kinds are "
        "not counted",
        str(dra.engine.claims.workload_kinds.KINDS_PER_NAMESPACE),
        "further kinds are not looked for, and their claims stay reserved, until a kind goes that no claim of the "
        "namespace names any more",
        "Event `WorkloadKindsExceeded` on the claim",
    ),
    ProcessLimit(
        "first looks for kinds under way at a time",
        str(workload_informers.PARALLEL_RESOLVES),
        "further kinds wait for their turn; a kind that the API server does not serve is looked for again after "
        f"{workload_informers.RETRY[0]:g} to {workload_informers.RETRY[1]:g} s, "
        f"{1 / workload_informers.RESOLVE_INTERVAL:g} kinds a second at most",
        "the claim has no entry of its workload yet",
    ),
    ProcessLimit(
        "Events that wait to be posted; namespaces take turns",
        str(dra.kube.events.QUEUE_MAX),
        "an Event of the namespace that has most of them is discarded; what it reports is reported again after "
        f"{controller.claim_events.REPEAT_AFTER / 60:g} minutes, if it still is the case",
        "metric `dra_reserve_events_discarded_total`",
    ),
    ProcessLimit(
        "iterations of a release rule for one object",
        "10,000",
        "the object counts as not finished; its claims stay reserved until it is deleted or its controller releases "
        "them; other objects of the kind are judged as before",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    ProcessLimit(
        f"objects of more than {workload_informers.LARGE_OBJECT_BYTES >> 10} KiB that a release rule is evaluated for",
        f"one at a time, half of the time at most; {workload_informers.LARGE_OBJECT_QUEUE_MAX:,} wait, and namespaces "
        "take turns",
        "an object is judged as it is when its turn comes, its claims stay reserved until then; beyond that number an "
        "object of the namespace that has most of them counts as not finished until it is written again",
        "–",
    ),
    ProcessLimit(
        "levels of maps and lists in an object that a release rule is evaluated for",
        str(dra.cel.expressions.NESTING_MAX),
        "the same",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    ProcessLimit(
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
    """Return docs/reference/limits.md as Markdown."""
    return markdown.page(
        "Limits",
        "Bounds on what one tenant, one node or one client may cost each process, and what happens when a bound is\n"
        "reached. None of them can be configured, unless the table names the field.\n",
        *(part for title, bounds in PROCESSES.items() for part in (f"## {title}\n", _limits_table(bounds))),
    )


def _limits_table(bounds: Iterable[ProcessLimit]) -> str:
    return markdown.table(("limited", "to", "when it is reached", "reported by"), bounds)
