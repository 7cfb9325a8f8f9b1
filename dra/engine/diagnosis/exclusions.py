"""Why no device at all satisfies a request: which selector excludes the devices, and what they have instead.

A request that selects nothing waits for ever, and the numbers of its nodes are all 0. What its author needs is the
expression that excludes, beside the values that the excluded devices have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from dra.cel.device_selectors import CompiledSelector, SelectorError
from dra.cel.selector_fields import SelectorField, fields_read
from dra.engine.allocator.claims_to_allocate import ClaimToAllocate, RequestData
from dra.engine.allocator.resource_slice_tracker import CandidateDevice, PoolID
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.pools import pool_fault

Finding: TypeAlias = tuple[str, int | None]
"""(why no device satisfies a request, number of such devices of the best node): None if devices are shared."""

EXAMINED_MAX: Final = 32
"""Maximum number of different sets of selectors that are examined at one state of the slices.

Each takes a look at every device; claims may bring any number of expressions.
"""

EXPRESSION_LENGTH_MAX: Final = 160
NAMED_VALUES_MAX: Final = 3
VALUE_LENGTH_MAX: Final = 40


def impossible_request(cluster: ClusterState, claim: ClaimToAllocate) -> str:
    """Return why no node can ever have the devices that a claim requests; empty if one might, or nothing is known."""
    if any(gap.resource.startswith("resourceslices") for gap in cluster.snapshot.gaps):
        return ""
    for alternatives in claim.requests:
        causes = [_cause(cluster, request) for request in alternatives]
        if all(causes):
            return causes[-1]
    return ""


def _cause(cluster: ClusterState, request: RequestData) -> str:
    """Return why no node can have the devices of a request; empty if one might."""
    finding = _finding(cluster, request)
    if finding is None:
        return ""
    cause, most = finding
    asked = max(request.count or 0, 1)
    if cause:
        return f"request {request.parent_request}: {cause}"
    if most is not None and most < asked:
        return f"request {request.name} wants {asked} devices, and no node has more than {most}"
    return ""


def _finding(cluster: ClusterState, request: RequestData) -> Finding | None:
    """Return the finding about the selectors of a request; None if too many different ones were examined."""
    version = cluster.inventory.version
    key = (request.device_class, tuple(selector.expression for selector in request.selectors))
    known = cluster.request_findings
    if key not in known or known[key][0] != version:
        for outdated in [finding_key for finding_key, (then, _) in known.items() if then != version]:
            del known[outdated]
        if len(known) >= EXAMINED_MAX:
            return None
        known[key] = (version, _examine(cluster, request))
    return known[key][1]


def _examine(cluster: ClusterState, request: RequestData) -> Finding:
    """Return why no device satisfies a request, or the number of such devices that the best node can use."""
    cause, selected = _exclusion(cluster, request)
    if cause or any(candidate.device.allow_multiple_allocations for candidate in selected):
        return cause, None
    nodes = Counter(candidate.spec.node_name or candidate.device.node_name for candidate in selected)
    anywhere = nodes.pop(None, 0)
    return "", anywhere + max(nodes.values(), default=0)


def _exclusion(cluster: ClusterState, request: RequestData) -> tuple[str, Sequence[CandidateDevice]]:
    """Return why no device satisfies a request, whatever is held or tainted, or the devices that do."""
    published = [candidate for pool in cluster.inventory.pools() for candidate in pool.candidates]
    if not published:
        return "no driver publishes a device", ()
    device_class = cluster.classes.get(request.device_class)
    class_size = len((device_class.spec.selectors if device_class is not None else None) or ())
    left: Sequence[CandidateDevice] = published
    for number, selector in enumerate(request.selectors):
        matching = [candidate for candidate in left if _matches(candidate, selector)]
        if not matching:
            of_class = number < class_size
            author = f"the selector of class {request.device_class}" if of_class else "its selector"
            devices = "published devices" if of_class or not class_size else f"devices of class {request.device_class}"
            cause = (
                f"{author} excludes all {len(left)} {devices}: {_shortened(selector.expression, EXPRESSION_LENGTH_MAX)}"
                f"{_values_text(selector, left)}"
            )
            return cause, ()
        left = matching
    return _usable(cluster, left)


def _matches(candidate: CandidateDevice, selector: CompiledSelector) -> bool:
    try:
        return candidate.matches_selectors((selector,))
    except SelectorError:
        return False


def _values_text(selector: CompiledSelector, devices: Sequence[CandidateDevice]) -> str:
    """Return the values of the fields that the selector reads; empty if the expression cannot be analysed."""
    parts = []
    for read in sorted(fields_read(selector.expression) or (), key=str):
        values = Counter(_value(candidate, read) for candidate in devices)
        named = [f"{value} ({count})" if len(values) > 1 else value for value, count in values.most_common()]
        more = f" and {len(named) - NAMED_VALUES_MAX} more values" if len(named) > NAMED_VALUES_MAX else ""
        parts.append(f"{read.name or read.domain or read.kind} is {', '.join(named[:NAMED_VALUES_MAX])}{more}")
    return f"; {'; '.join(parts)}" if parts else ""


def _value(candidate: CandidateDevice, read: SelectorField) -> str:
    """Return the value of a field of a device as text."""
    if read.kind == "driver":
        return candidate.item.driver
    if read.kind not in {"attributes", "capacity"} or read.name is None:
        return "other"
    fields = (candidate.device.attributes if read.kind == "attributes" else candidate.device.capacity) or {}
    value = fields.get(f"{read.domain}/{read.name}")
    if value is None and read.domain == candidate.item.driver:
        value = fields.get(read.name)
    if not isinstance(value, dict) or not value:
        return "absent"
    return _shortened(str(next(iter(value.values()))), VALUE_LENGTH_MAX)


def _usable(cluster: ClusterState, devices: Sequence[CandidateDevice]) -> tuple[str, Sequence[CandidateDevice]]:
    """Return why the devices that a request selects cannot be allocated, or those that can."""
    keys = dict.fromkeys((candidate.item.driver, candidate.item.pool) for candidate in devices)
    faults = dict(_pool_faults(cluster, keys))
    usable = [candidate for candidate in devices if (candidate.item.driver, candidate.item.pool) not in faults]
    if usable:
        return "", usable
    named = [f"pool {'/'.join(key)}: {fault}" for key, fault in faults.items()]
    more = f"; and {len(named) - NAMED_VALUES_MAX} more pools" if len(named) > NAMED_VALUES_MAX else ""
    return f"the devices that it selects cannot be allocated: {'; '.join(named[:NAMED_VALUES_MAX])}{more}", ()


def _pool_faults(cluster: ClusterState, keys: Iterable[PoolID]) -> Iterator[tuple[PoolID, str]]:
    for key in keys:
        pool = cluster.inventory.pool(key)
        if pool is not None and (fault := pool_fault(pool)):
            yield key, fault


def _shortened(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
