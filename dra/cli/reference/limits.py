"""docs/reference/limits.md: the costs that one tenant, node or client may cause each process, from the constants."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import controller.claim_events
import controller.extender.client_authorization
import controller.extender.server
import dra.api.parameters.opaque
import dra.api.structural_schema
import dra.cel.expressions
import dra.cli.page.application
import dra.cli.prometheus
import dra.engine.allocator.resource_slice_tracker
import dra.engine.claims.workload_kinds
import dra.kube.client
import dra.kube.discovery
import dra.kube.events
import dra.kube.object_sizes
import dra.kube.sender
import dra.model.annotations
from controller import placement_reader, workload_informers
from controller.extender import binding_limiter
from dra.api.colocation import node_strategy
from dra.api.page_configuration import PageConfiguration
from dra.api.reservations import well_known
from dra.cli import size_policies
from dra.cli.page import page_server, patch_stream, review_cache, scoped_feeds, team_gate, use_sources
from dra.cli.reference import markdown
from dra.engine.claims import claim_state, consumer_entries, placements, stuck_allocations
from dra.engine.colocation import decide, node_metric_objects, node_usage
from dra.engine.device_usage import over_time, recorded
from dra.engine.scheduling import binding_limit
from dra.httpserver.connections import ConnectionLimits
from dra.telemetry import telemetry_server
from kubeletplugin import claims as plugin_claims
from kubeletplugin import socket_listener, support_bundle


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
        "concurrent requests to the API server, without watches and lease renewals",
        str(dra.kube.sender.MAX_IN_FLIGHT),
        "a request waits for a free slot until its own deadline",
        "the log: `not sent in time`",
    ),
    ProcessLimit(
        "bytes of one page of a list; of a whole list, after the server has expired the continue token",
        f"{dra.kube.client.PAGE_BYTES_MAX >> 20} MiB; {dra.kube.client.LIST_BYTES_MAX >> 20} MiB",
        f"the process stops reading and requests the page again with 1 in {dra.kube.client.PAGE_SHRINK_FACTOR} of its "
        f"{dra.kube.client.PAGE_SIZE} objects, and so on; of a single object that is longer, only the identity is "
        "requested; a whole list is requested again in pages",
        "the log: `the response is longer than`",
    ),
    ProcessLimit(
        "memory of one decoded object that users write: pods, claims, templates, PodGroups, workloads, Reservations, "
        "PodMigrationJobs, disruption budgets; of all that take more than "
        f"{dra.kube.object_sizes.UNCOUNTED_MEMORY_MAX >> 10} KiB, of one kind and namespace",
        f"{dra.kube.object_sizes.OBJECT_MEMORY_MAX >> 10} KiB; {dra.kube.object_sizes.NAMESPACE_MEMORY_MAX >> 20} MiB "
        "for each watch",
        "of claims and templates, parts are not cached that are read when they are needed; extender and page read of "
        "a pod on a node what it takes there; other objects are not read: their last known state stays in effect, and "
        "a Reservation holds what its status says",
        "Event `ObjectTooLarge` (not of the page), metric `dra_reserve_objects_too_large`, the log: `too large`",
    ),
)
"""Bounds of every process that talks to an API server."""

_DROPPED: Final = (
    "metric `dra_reserve_connections_dropped_total`, and the log once a minute with the address that has most"
)


def _listening(bounds: ConnectionLimits, *, dropped: str = "idle connection") -> tuple[ProcessLimit, ...]:
    """Return the limits for the clients of a listener; ``dropped``: the connections that give way to others."""
    rate = bounds.new_connections_per_second
    return (
        ProcessLimit(
            "open connections",
            str(bounds.max_connections),
            f"the listener closes the oldest {dropped} of the address that has the most; if there is none, the "
            "listener closes the new one",
            f"{_DROPPED} (`Crowded`, `Full`)",
        ),
        *(
            [
                ProcessLimit(
                    "open connections without a first request",
                    str(bounds.max_opening),
                    "the listener closes the oldest one of the address that has the most",
                    f"{_DROPPED} (`Crowded`)",
                )
            ]
            if bounds.max_opening < bounds.max_connections
            else []
        ),
        *(
            [
                ProcessLimit(
                    "new connections of one address",
                    f"{rate:g} a second, {2 * rate:g} at once",
                    "the listener closes further connections of the address",
                    f"{_DROPPED} (`Pace`)",
                )
            ]
            if rate is not None
            else []
        ),
        ProcessLimit(
            "time for the TLS handshake; for the first request with its body; between two requests, or until the "
            "client has read a response"
            + ("; the listener closes a connection after one response" if bounds.close_after_response else ""),
            f"{bounds.handshake_timeout:g} s; {bounds.request_timeout:g} s; {bounds.idle_timeout:g} s",
            "the listener closes the connection",
            f"{_DROPPED} (`Slow`)",
        ),
    )


_TELEMETRY: Final = (
    *_listening(telemetry_server.CONNECTION_LIMITS),
    ProcessLimit(
        "renderings of metrics",
        f"1 in {telemetry_server.RENDER_CACHE_SECONDS:g} s",
        "the response is the text of the last rendering",
        "–",
    ),
)
"""Bounds of each port, that of the probes and that of the metrics."""

_EXTENDER: Final = (
    ProcessLimit(
        "characters of annotations that are cached for each pod",
        f"{dra.model.annotations.RETAIN_ALL_MAX_CHARACTERS}",
        "the cache keeps only annotations that a rule reads, each truncated to "
        f"{well_known.MAX_ANNOTATION_LENGTH} characters",
        "–",
    ),
    ProcessLimit(
        "concurrent bindings",
        f"{binding_limit.LIMIT_MIN} to {binding_limit.LIMIT_MAX}, fewer on a slow API server: one third less "
        f"after a binding that takes longer than {binding_limit.SLOW_SHARE:g} of `bindSeconds`",
        f"the response to `filter` is delayed by up to {binding_limiter.FILTER_WAIT_SHARE:g} of `bindSeconds`, so that "
        "kube-scheduler starts no further binding; a further binding waits for a slot until "
        f"{binding_limiter.REMAINING_SHARE:g} of `bindSeconds` has passed, and then fails without any write",
        "metrics `dra_reserve_extender_binds_under_way` and `dra_reserve_extender_turns`; `bindings are under way on a "
        "slow API server` in the scheduler's Event on the pod",
    ),
    *_listening(controller.extender.server.CONNECTION_LIMITS),
    ProcessLimit(
        "bytes of one request",
        f"{controller.extender.server.REQUEST_BYTES_MAX >> 20} MiB",
        "the response has status 413; the extender discards the request",
        "kube-scheduler's Event on the pod: `code 413`",
    ),
    ProcessLimit(
        "clients, where `tls.clientAuthority` is set",
        "those with a name of `tls.clientNames` (`kube-scheduler`)",
        "the response has status 403; the extender does not read the request",
        f"the log, for the first {controller.extender.client_authorization.LOGGED_CLIENTS_MAX} names",
    ),
)

_MEMORY: Final = ProcessLimit(
    "characters of annotations that are cached for each claim and pod",
    f"{dra.model.annotations.RETAIN_ALL_MAX_CHARACTERS}",
    "the cache keeps only annotations that a rule reads, each truncated to "
    f"{dra.model.annotations.RETAINED_VALUE_MAX_CHARACTERS} characters "
    f"({well_known.MAX_ANNOTATION_LENGTH} of pods in Reservations); "
    "a held claim is not handed over to a pod whose template has other annotations",
    "–",
)

_CONTROLLER: Final = (
    _MEMORY,
    ProcessLimit(
        "colocation: pods, and applications of the host, in one NodeMetric; characters of the annotation "
        "`node.koordinator.sh/colocation-strategy`",
        f"{node_usage.PODS_MAX}, and as many; {node_strategy.ANNOTATION_MAX}",
        "nothing of the NodeMetric is believed, and the node offers what batch pods hold; the annotation has no effect",
        "Event `BatchResourcesDegraded` or `NodeStrategyInvalid` on the Node",
    ),
    ProcessLimit(
        "colocation: writes of the batch resources of one node; of the spec of one NodeMetric",
        f"1 in {decide.WRITE_PAUSE:g} s, unless pods hold more than is offered; "
        f"1 in {node_metric_objects.PATCH_PAUSE:g} s",
        "the next write has what was reported last",
        "–",
    ),
    ProcessLimit(
        "rule Unstick: reads of nodes, devices and pods, for all claims together",
        f"1 in {placement_reader.READ_PAUSE_MIN:g} s, and a fifth of the time",
        "the next read serves the other claims",
        "Event `AllocationUnusable` or `AllocationStuck` comes later",
    ),
    ProcessLimit(
        "rule Unstick: seconds of work, with the selectors of users: without a pause; for one claim; between two reads",
        f"{placement_reader.TIME_SLICE:g} s, and one selector for one device; {placement_reader.TIME_BUDGET:g} s; "
        f"{placement_reader.TIME_BUDGET:g} s",
        "the rest of the controller runs for as long; the claim stays reserved; the next read serves the other claims, "
        "beginning with namespaces that have used less",
        "Event `AllocationUnusable` on the claim: `took more than`",
    ),
    ProcessLimit(
        "rule Unstick: memory leaked by selectors that call `quantity`, `semver`, `ip`, `cidr`, `url` or functions of "
        "their values (2 KiB for each comparison, plus long strings); the same for the claims of one namespace",
        f"{placement_reader.LEAK_LIMIT >> 20} MiB; {placement_reader.LEAK_LIMIT_PER_NAMESPACE >> 20} MiB",
        "claims with such selectors stay reserved until the controller restarts",
        "Event `AllocationUnusable` on the claim: `have used up their memory`",
    ),
    ProcessLimit(
        "rule Unstick: different selectors in the requests of all claims of one pod",
        str(dra.engine.allocator.resource_slice_tracker.SELECTOR_RESULTS_MAX),
        "the claim stays reserved",
        "Event `AllocationUnusable` on the claim: `selectors are more than`",
    ),
    ProcessLimit(
        "rule Unstick: pods considered for one claim; groups of equal pods; picks of the allocator for one node",
        f"{stuck_allocations.LOOKUP_PODS}; {placements.MAX_SHAPES}; {placements.MAX_STEPS:,}",
        "the rule ignores further pods; a node on which the allocator gives up counts as a node without devices",
        "Event `AllocationUnusable` on the claim",
    ),
    ProcessLimit(
        "live reads of listed pods that do not use the claim, in one decision",
        str(consumer_entries.LOOKUP_BATCH),
        f"the next decision reads the others; a live read is valid for {claim_state.LIVE_READ_VALID:g} s",
        "–",
    ),
    ProcessLimit(
        "workload kinds watched for the claims of one namespace, without built-in kinds and kinds with a release rule",
        str(dra.engine.claims.workload_kinds.KINDS_PER_NAMESPACE),
        "claims of further kinds stay reserved until the claims of the namespace reference fewer kinds",
        "Event `WorkloadKindsExceeded` on the claim",
    ),
    ProcessLimit(
        "kinds that are resolved concurrently",
        str(workload_informers.PARALLEL_RESOLVES),
        "further kinds wait; a kind that the API server does not serve is resolved again after "
        f"{workload_informers.RETRY[0]:g} to {workload_informers.RETRY[1]:g} s, "
        f"at most {1 / workload_informers.RESOLVE_INTERVAL:g} kinds per second",
        "the list of the claim does not have the workload yet",
    ),
    ProcessLimit(
        "queued Events; namespaces take turns",
        str(dra.kube.events.QUEUE_MAX),
        "the controller discards an Event of the namespace with the most Events; a state that persists is reported "
        f"again after {controller.claim_events.REPEAT_AFTER / 60:g} minutes",
        "metric `dra_reserve_events_discarded_total`",
    ),
    ProcessLimit(
        "release rules: iterations for one object",
        "10,000",
        "the object counts as not finished; its claims stay reserved until the object is deleted or its controller "
        "releases the claims; other objects of the kind are not affected",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    ProcessLimit(
        f"release rules: objects of more than {workload_informers.LARGE_OBJECT_BYTES >> 10} KiB",
        f"one at a time, at most half of the time; {workload_informers.LARGE_OBJECT_QUEUE_MAX:,} in the queue; "
        "namespaces take turns",
        "the rule is evaluated for the state that the object has by then, and its claims stay reserved meanwhile; if "
        "the queue is full, an object of the namespace with the most objects counts as not finished until its next "
        "update",
        "–",
    ),
    ProcessLimit(
        "release rules: nested maps and lists in an object",
        str(dra.cel.expressions.NESTING_MAX),
        "as for iterations",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    ProcessLimit(
        "API groups in the discovery cache",
        str(dra.kube.discovery.GROUPS_MAX),
        "the cache drops the oldest group, and reads the group again on demand",
        "–",
    ),
)

_PAGE: Final = (
    *_listening(dra.cli.page.application.CONNECTION_LIMITS, dropped="connection without an open stream"),
    ProcessLimit(
        "open streams, one a tab; of one user; of users limited to one namespace; kept for users of all namespaces",
        f"{team_gate.STREAMS_MAX}; {team_gate.USER_STREAMS_MAX}; {team_gate.NAMESPACE_STREAMS_MAX}; "
        f"{team_gate.STREAMS_MAX // team_gate.KEPT_SHARE}",
        "status 503; the tab tries again",
        "metric `dra_reserve_page_responses_total`",
    ),
    ProcessLimit(
        "requests whose token is reviewed for the first time; from one address",
        f"{team_gate.FIRST_REVIEWS_MAX}; {team_gate.ADDRESS_FIRST_REVIEWS_MAX}",
        "status 503; the tab tries again",
        "metric `dra_reserve_page_responses_total`",
    ),
    ProcessLimit(
        "requests whose rights are reviewed at the same time; of one user",
        f"{team_gate.REQUESTS_MAX}; {team_gate.USER_REQUESTS_MAX}",
        "status 503; the tab tries again",
        "metric `dra_reserve_page_responses_total`",
    ),
    ProcessLimit(
        "different sets of rights whose rows are in memory (`maxScopes`)",
        str(PageConfiguration().max_scopes),
        "the page drops the set that no user has looked at for longest; if all have open tabs, or were looked at in "
        f"the last {scoped_feeds.RECENT_SECONDS:g} s, status 503; without an open tab, a set is dropped after "
        f"{scoped_feeds.IDLE_SECONDS:g} s, except for the last of all namespaces; one place in "
        f"{scoped_feeds.NAMESPACE_SHARE}, two at least, can be of one namespace, and one in "
        f"{scoped_feeds.KEPT_SHARE} is kept for sets of all namespaces",
        "metric `dra_reserve_page_scopes`",
    ),
    ProcessLimit(
        "answers of reviews that are kept; for how long if they allow; if they deny",
        f"{review_cache.ANSWERS_MAX} of each; {review_cache.ALLOW_SECONDS:g} s; {review_cache.DENY_SECONDS:g} s",
        "the page forgets the answer unused for longest, and reviews again; open streams are reviewed each "
        f"{page_server.REVIEW_INTERVAL:g} s, so a right that is taken away ends a stream within a minute",
        "–",
    ),
    ProcessLimit(
        "changed rows that wait for one client; seconds for which a client does not read",
        f"{patch_stream.PENDING_ROWS_MAX:,}; {page_server.WRITE_TIMEOUT:g} s",
        "the client fetches all rows again; the page closes the connection",
        "–",
    ),
    ProcessLimit(
        "questions to Prometheus about history that are under way; that wait; bytes of an answer",
        f"{use_sources.ASKED_MAX}; {use_sources.WAITING_MAX}; {dra.cli.prometheus.ANSWER_BYTES_MAX >> 20} MiB",
        "status 503; the tab tries again",
        "metric `dra_reserve_page_responses_total`; the log of the page",
    ),
    ProcessLimit(
        "groups with rows in the view Idle; changes of their devices that the page remembers without a Prometheus",
        f"{over_time.ROWS_MAX}; {recorded.CHANGES_MAX:,}",
        "the rest is one row; the namespace with most changes loses its oldest",
        "the view says since when it knows",
    ),
)

_PLUGIN: Final = (
    ProcessLimit(
        "bytes of one call of the kubelet, which has all claims of a pod",
        f"{socket_listener.MAX_CALL_SIZE >> 20} MiB",
        "the call fails, and the pod does not start; no pod names so many claims",
        "the kubelet's `FailedPrepareDynamicResources`",
    ),
    ProcessLimit(
        "bytes of a claim that is read beside others; of a claim that is read alone",
        f"{plugin_claims.USUAL_SIZE >> 20} MiB; {plugin_claims.MAX_SIZE >> 20} MiB",
        "the claim is read again, one at a time; a claim of more bytes is not prepared",
        "the kubelet's `FailedPrepareDynamicResources`: `the response is longer than`",
    ),
    ProcessLimit(
        "bytes of the opaque parameters of one claim for one driver of the plugin, those of its DeviceClasses included",
        f"{plugin_claims.MAX_PARAMETERS_SIZE >> 10} KiB",
        "the claim is not prepared; parameters of other drivers do not count, and are not decoded",
        "the kubelet's `FailedPrepareDynamicResources`: `its opaque parameters`",
    ),
    ProcessLimit(
        "errors that a message lists of malformed parameters; characters of a value in the message",
        f"{dra.api.parameters.opaque.MAX_ERRORS}; {dra.api.parameters.opaque.MAX_SHOWN}",
        "the message ends with the number of further errors; the value is cut",
        "–",
    ),
    ProcessLimit(
        "bytes of a support bundle",
        f"{support_bundle.MAX_BUNDLE_SIZE >> 20} MiB",
        "the bundle has the reason instead of the part",
        "the part of the bundle: `left out`",
    ),
)

_OBJECTS: Final = (
    ProcessLimit(
        "entries of a list or map in a spec, unless the field has a limit of its own; characters of a text",
        f"{dra.api.structural_schema.MAX_ENTRIES}; {dra.api.structural_schema.MAX_TEXT_LENGTH}",
        "the API server refuses the object; an update only if the field changes",
        "the response: `Too many` or `Too long`",
    ),
    ProcessLimit(
        "characters of a spec with its templates; values, counted as commas and opening brackets",
        f"{size_policies.MAX_CHARACTERS >> 10} KiB; {size_policies.MAX_VALUES}",
        "the API server refuses the object; an update only if the spec changes",
        "the response: policies `reservation-sizes.reserve.dra`, `migration-sizes.reserve.dra`",
    ),
    ProcessLimit(
        "labels; annotations; finalizers; owner references",
        "; ".join(map(str, size_policies.MAX_METADATA_ENTRIES.values())),
        "the API server refuses the object; an update only if their number grows",
        "the response: the same policies",
    ),
)

PROCESSES: Final = {
    "Every process that talks to an API server": _CLIENT,
    "Every process that serves probes and metrics, for each of the two ports": _TELEMETRY,
    "The controller": _CONTROLLER,
    "The scheduler extender": _EXTENDER,
    "The page": _PAGE,
    "The kubelet plugin": _PLUGIN,
    "Reservations and PodMigrationJobs, by the API server": _OBJECTS,
}


def page() -> str:
    """Return docs/reference/limits.md as Markdown."""
    return markdown.page(
        "Limits",
        "Limits on the costs that one tenant, one node or one client can cause each process, and the consequence of\n"
        "reaching a limit. A limit is configurable only if the table names the field.\n",
        *(part for title, bounds in PROCESSES.items() for part in (f"## {title}\n", _limits_table(bounds))),
    )


def _limits_table(bounds: Iterable[ProcessLimit]) -> str:
    return markdown.table(("limited resource", "limit", "consequence", "reported by"), bounds)
