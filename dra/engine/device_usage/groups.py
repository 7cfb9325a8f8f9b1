"""The devices that claims hold and use now, by namespace, workload and class: the gauges from which history is made.

A device is used while pods use its claim, unless its node reports that the device, a GPU, computes nothing. A device
that several claims share counts once for each group, as in ``kubectl dra usage``.

Users name namespaces, workloads and classes, and each group is a time series: the number of groups is limited, for all
and for each namespace. The rest counts as `OTHER`, which no object can be named.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from dra.engine.claims.claim_state import ClaimState
from dra.engine.claims.consumers import Stage
from dra.engine.steps import Steps, finish
from dra.model.claims import DeviceRequestAllocationResult, ResourceClaim

OTHER: Final = "<other>"
"""Name of what is beyond the limits; a namespace or workload may be named ``other``."""

NONE: Final = "<none>"
"""Name of the workload of claims that are held for no workload or Reservation, and of a class that is not known."""

GROUPS_MAX: Final = 200
"""Groups that have series of their own, those with most devices first."""

GROUPS_IN_NAMESPACE_MAX: Final = 20
"""Groups of one namespace that have series of their own, so that no namespace takes the place of others."""

NAMESPACES_MAX: Final = 100
"""Namespaces that have a series for the rest of their groups."""

STEP_CLAIMS: Final = 100
"""Claims that are counted in one step: about a millisecond."""

Activity: TypeAlias = Callable[[DeviceRequestAllocationResult], bool | None]
"""A function that returns whether a device computes; None if that is not known."""


_Device: TypeAlias = tuple[str, str, str]


class UsageGroup(NamedTuple):
    """The namespace, workload and class by which devices are counted."""

    namespace: str
    workload: str
    """``jobs.batch/train``, ``reservation/night``, `NONE` or `OTHER`."""

    device_class: str


class DeviceNumbers(NamedTuple):
    """Numbers of devices of one group."""

    held: int
    used: int


def held_results(record: ClaimState) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the results of an allocated claim that hold devices; those that only observe them (adminAccess) do not."""
    allocation = record.claim.status.allocation if record.claim is not None else None
    results = allocation.devices.results if allocation is not None else None
    return tuple(result for result in results or () if not result.admin_access)


def used_results(record: ClaimState, is_active: Activity) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the results of a claim whose devices are used."""
    if not (record.users(Stage.STARTING) or record.users(Stage.STARTED)):
        return ()
    return tuple(result for result in held_results(record) if is_active(result) is not False)


def count_groups(records: Iterable[ClaimState], is_active: Activity) -> dict[UsageGroup, DeviceNumbers]:
    """Count the devices of allocated claims by group; devices that are only observed (adminAccess) do not count."""
    return finish(count_groups_in_steps(records, is_active))


def count_groups_in_steps(records: Iterable[ClaimState], is_active: Activity) -> Steps[dict[UsageGroup, DeviceNumbers]]:
    """Count as `count_groups` does, in steps of `STEP_CLAIMS` claims; claims that appear meanwhile do not count."""
    held: defaultdict[UsageGroup, set[_Device]] = defaultdict(set)
    used: defaultdict[UsageGroup, set[_Device]] = defaultdict(set)
    for number, record in enumerate(tuple(records), start=1):
        if number % STEP_CLAIMS == 0:
            yield
        results = held_results(record)
        if record.claim is None or not results:
            continue
        workload, classes = workload_name(record), request_classes(record.claim)
        groups = {r.request: UsageGroup(record.key[0], workload, classes.get(r.request) or NONE) for r in results}
        for result in results:
            held[groups[result.request]].add((result.driver, result.pool, result.device))
        for result in used_results(record, is_active):
            used[groups[result.request]].add((result.driver, result.pool, result.device))
    yield
    return {group: DeviceNumbers(len(devices), len(used.get(group, ()))) for group, devices in held.items()}


def workload_name(record: ClaimState) -> str:
    """Return the workload that a claim is reserved for, such as ``jobs.batch/train``, or `NONE`.

    A claim that a Reservation keeps has no workload; the Reservation stands for it.
    """
    if record.reservation is not None:
        return str(record.reservation.reference)
    return (record.claim.kept_for if record.claim is not None else "") or NONE


def limit_groups(groups: Mapping[UsageGroup, DeviceNumbers]) -> dict[UsageGroup, DeviceNumbers]:
    """Return at most about three hundred groups with the same sums: the largest ones, and the rest as `OTHER`."""
    ranked = sorted(groups, key=lambda group: (-groups[group].held, group))
    held_by_namespace: Counter[str] = Counter()
    for group, numbers in groups.items():
        held_by_namespace[group.namespace] += numbers.held
    largest = sorted(held_by_namespace, key=lambda name: (-held_by_namespace[name], name))[:NAMESPACES_MAX]
    with_rest, named_in = frozenset(largest), Counter[str]()
    limited: dict[UsageGroup, DeviceNumbers] = {}
    for group in ranked:
        named = group
        if len(limited) >= GROUPS_MAX or named_in[group.namespace] >= GROUPS_IN_NAMESPACE_MAX:
            named = UsageGroup(group.namespace if group.namespace in with_rest else OTHER, OTHER, OTHER)
        named_in[group.namespace] += 1
        before, numbers = limited.get(named, DeviceNumbers(0, 0)), groups[group]
        limited[named] = DeviceNumbers(before.held + numbers.held, before.used + numbers.used)
    return limited


def request_classes(claim: ResourceClaim) -> dict[str, str]:
    """Return the class of each request of a claim; alternatives are named ``request/alternative``, as in results."""
    classes: dict[str, str] = {}
    for request in (claim.spec.devices or {}).get("requests") or ():
        name = str(request.get("name", ""))
        exact = request.get("exactly")
        if exact:
            classes[name] = str(exact.get("deviceClassName", ""))
        for alternative in request.get("firstAvailable") or ():
            classes[f"{name}/{alternative.get('name', '')}"] = str(alternative.get("deviceClassName", ""))
    return classes
