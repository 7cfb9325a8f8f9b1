"""docs/reference/limits.md: the costs that one tenant, node or client may cause each process, from the constants."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final, NamedTuple

import controller.claim_events
import controller.extender.client_authorization
import controller.extender.server
import dra.cli.page.application
import dra.kube.object_sizes
import dra.model.annotations
from controller import placement_reader, workload_informers
from controller.extender import binding_limiter
from dra.api.page_configuration import PageConfiguration
from dra.api.reservations import well_known
from dra.cli import size_policies
from dra.cli.page import page_server, scoped_feeds, team_gate
from dra.cli.reference import markdown
from dra.cli.reference.configuration import docstrings_below
from dra.engine.claims import claim_state
from dra.engine.scheduling import binding_limit
from dra.httpserver.connections import ConnectionLimits
from dra.kube import page_reader
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


_RESOURCE: Final = re.compile(r"(?:Maximum (?:number of )?)?(.+?)[.:;](?:\s|$)")


def _declared(where: str, consequence: str, reported_by: str, *, of: str = "") -> ProcessLimit:
    """Return the row of constants, ``module:NAME,NAME module:NAME``, whose docstrings say what each limits."""
    resources, values = list[str](), list[str]()
    for module, _, names in (part.partition(":") for part in where.split()):
        for name in names.split(","):
            resources.append(limited_resource(module, name))
            values.append(_format_value(getattr(import_module(module), name), resources[-1]))
    return ProcessLimit(of + "; ".join(resources), "; ".join(values), consequence, reported_by)


def limited_resource(module: str, name: str) -> str:
    """Return what a constant limits, the beginning of its docstring: ``claims`` of ``Maximum number of claims: …``.

    Raises ValueError if the constant has no docstring that says it.
    """
    docstrings = docstrings_below(ast.parse(inspect.getsource(import_module(module))).body)
    match = _RESOURCE.match(docstrings.get(name, ""))
    if match is None:
        raise ValueError(f"{module}.{name}: write a docstring that says what it limits, for docs/reference/limits.md")
    return match[1] if match[1][:2].isupper() else match[1][0].lower() + match[1][1:]


def _format_value(value: float, resource: str) -> str:
    if resource.startswith("bytes"):
        return f"{int(value) >> 20} MiB" if value >= 1 << 20 else f"{int(value) >> 10} KiB"
    return f"{value:g} s" if resource.startswith("seconds") else f"{value:,}"


_CLIENT: Final = (
    _declared(
        "dra.kube.sender:MAX_IN_FLIGHT",
        "a request waits for a free slot until its own deadline",
        "the log: `not sent in time`",
    ),
    _declared(
        "dra.kube.page_reader:PAGE_BYTES_MAX,LIST_BYTES_MAX",
        f"the process stops reading and requests the page again with 1 in {page_reader.PAGE_SHRINK_FACTOR} of its "
        f"{page_reader.PAGE_SIZE} objects, and so on; of a single object that is longer, only the identity is "
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


def _listening(bounds: ConnectionLimits, *, dropped: str = "idle connection") -> Iterator[ProcessLimit]:
    """Yield the limits for the clients of a listener; ``dropped``: the connections that give way to others."""
    yield ProcessLimit(
        "open connections",
        str(bounds.max_connections),
        f"the listener closes the oldest {dropped} of the address that has the most; if there is none, the listener "
        "closes the new one",
        f"{_DROPPED} (`Crowded`, `Full`)",
    )
    if bounds.max_opening < bounds.max_connections:
        yield ProcessLimit(
            "open connections without a first request",
            str(bounds.max_opening),
            "the listener closes the oldest one of the address that has the most",
            f"{_DROPPED} (`Crowded`)",
        )
    if (rate := bounds.new_connections_per_second) is not None:
        yield ProcessLimit(
            "new connections of one address",
            f"{rate:g} a second, {2 * rate:g} at once",
            "the listener closes further connections of the address",
            f"{_DROPPED} (`Pace`)",
        )
    yield ProcessLimit(
        "time for the TLS handshake; for the first request with its body; between two requests, or until the client "
        "has read a response"
        + ("; the listener closes a connection after one response" if bounds.close_after_response else ""),
        f"{bounds.handshake_timeout:g} s; {bounds.request_timeout:g} s; {bounds.idle_timeout:g} s",
        "the listener closes the connection",
        f"{_DROPPED} (`Slow`)",
    )


_TELEMETRY: Final = (
    *_listening(telemetry_server.CONNECTION_LIMITS),
    _declared(
        "dra.telemetry.telemetry_server:RENDER_CACHE_SECONDS",
        "the response is the text of the last rendering",
        "–",
    ),
)
"""Bounds of each port, that of the probes and that of the metrics."""

_EXTENDER: Final = (
    _declared(
        "dra.model.annotations:RETAIN_ALL_MAX_CHARACTERS",
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
    _declared(
        "controller.extender.server:REQUEST_BYTES_MAX",
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

_MEMORY: Final = _declared(
    "dra.model.annotations:RETAIN_ALL_MAX_CHARACTERS",
    "the cache keeps only annotations that a rule reads, each truncated to "
    f"{dra.model.annotations.RETAINED_VALUE_MAX_CHARACTERS} characters "
    f"({well_known.MAX_ANNOTATION_LENGTH} of pods in Reservations); "
    "a held claim is not handed over to a pod whose template has other annotations",
    "–",
)

_CONTROLLER: Final = (
    _MEMORY,
    _declared(
        "dra.engine.colocation.node_usage:PODS_MAX dra.api.colocation.node_strategy:ANNOTATION_MAX",
        "nothing of the NodeMetric is believed, and the node offers what batch pods hold; the annotation has no effect",
        "Event `BatchResourcesDegraded` or `NodeStrategyInvalid` on the Node",
        of="colocation: ",
    ),
    _declared(
        "dra.engine.colocation.decide:WRITE_PAUSE dra.engine.colocation.node_metric_objects:PATCH_PAUSE",
        "the next write has what was reported last",
        "–",
        of="colocation: ",
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
    _declared(
        "dra.engine.allocator.resource_slice_tracker:SELECTOR_RESULTS_MAX",
        "the claim stays reserved",
        "Event `AllocationUnusable` on the claim: `selectors are more than`",
        of="rule Unstick: ",
    ),
    _declared(
        "dra.engine.claims.stuck_allocations:LOOKUP_PODS dra.engine.claims.placements:MAX_SHAPES,MAX_STEPS",
        "the rule ignores further pods; a node on which the allocator gives up counts as a node without devices",
        "Event `AllocationUnusable` on the claim",
        of="rule Unstick: ",
    ),
    _declared(
        "dra.engine.claims.consumer_entries:LOOKUP_BATCH",
        f"the next decision reads the others; a live read is valid for {claim_state.LIVE_READ_VALID:g} s",
        "–",
    ),
    _declared(
        "dra.engine.claims.workload_kinds:KINDS_PER_NAMESPACE",
        "claims of further kinds stay reserved until the claims of the namespace reference fewer kinds",
        "Event `WorkloadKindsExceeded` on the claim",
    ),
    _declared(
        "controller.workload_informers:PARALLEL_RESOLVES",
        "further kinds wait; a kind that the API server does not serve is resolved again after "
        f"{workload_informers.RETRY[0]:g} to {workload_informers.RETRY[1]:g} s, "
        f"at most {1 / workload_informers.RESOLVE_INTERVAL:g} kinds per second",
        "the list of the claim does not have the workload yet",
    ),
    _declared(
        "dra.kube.events:QUEUE_MAX",
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
    _declared(
        "dra.cel.expressions:NESTING_MAX",
        "as for iterations",
        "Event `ReleaseRuleFailed` on the claim",
        of="release rules: ",
    ),
    _declared(
        "dra.kube.discovery:GROUPS_MAX",
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
    _declared(
        "dra.cli.page.team_gate:FIRST_REVIEWS_MAX,ADDRESS_FIRST_REVIEWS_MAX",
        "status 503; the tab tries again",
        "metric `dra_reserve_page_responses_total`",
    ),
    _declared(
        "dra.cli.page.team_gate:REQUESTS_MAX,USER_REQUESTS_MAX",
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
    _declared(
        "dra.cli.page.review_cache:ANSWERS_MAX,ALLOW_SECONDS,DENY_SECONDS",
        "the page forgets the answer unused for longest, and reviews again; open streams are reviewed each "
        f"{page_server.REVIEW_INTERVAL:g} s, so a right that is taken away ends a stream within a minute",
        "–",
    ),
    _declared(
        "dra.cli.page.patch_stream:PENDING_ROWS_MAX dra.cli.page.page_server:WRITE_TIMEOUT",
        "the client fetches all rows again; the page closes the connection",
        "–",
    ),
    _declared(
        "dra.cli.page.use_sources:ASKED_MAX,WAITING_MAX dra.cli.prometheus:ANSWER_BYTES_MAX",
        "status 503; the tab tries again",
        "metric `dra_reserve_page_responses_total`; the log of the page",
    ),
    _declared(
        "dra.engine.device_usage.over_time:ROWS_MAX dra.engine.device_usage.recorded:CHANGES_MAX",
        "the rest is one row; the namespace with most changes loses its oldest",
        "the view says since when it knows",
    ),
)

_PLUGIN: Final = (
    _declared(
        "kubeletplugin.socket_listener:MAX_CALL_SIZE",
        "the call fails, and the pod does not start; no pod names so many claims",
        "the kubelet's `FailedPrepareDynamicResources`",
    ),
    _declared(
        "kubeletplugin.claims:USUAL_SIZE,MAX_SIZE",
        "the claim is read again, one at a time; a claim of more bytes is not prepared",
        "the kubelet's `FailedPrepareDynamicResources`: `the response is longer than`",
    ),
    _declared(
        "kubeletplugin.claims:MAX_PARAMETERS_SIZE",
        "the claim is not prepared; parameters of other drivers do not count, and are not decoded",
        "the kubelet's `FailedPrepareDynamicResources`: `its opaque parameters`",
    ),
    _declared(
        "dra.api.parameters.opaque:MAX_ERRORS,MAX_SHOWN",
        "the message ends with the number of further errors; the value is cut",
        "–",
    ),
    _declared(
        "kubeletplugin.support_bundle:MAX_BUNDLE_SIZE",
        "the bundle has the reason instead of the part",
        "the part of the bundle: `left out`",
    ),
)

_OBJECTS: Final = (
    _declared(
        "dra.api.structural_schema:MAX_ENTRIES,MAX_TEXT_LENGTH",
        "the API server refuses the object; an update only if the field changes",
        "the response: `Too many` or `Too long`",
    ),
    _declared(
        "dra.cli.size_policies:MAX_CHARACTERS,MAX_VALUES",
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
