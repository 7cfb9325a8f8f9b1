"""The ResourceSlice tracker: pools of devices by node, made of the ResourceSlices that drivers publish.

Only the slices with the highest generation of a pool count, and only when all of them exist: during an update, a device
may be in two slices or in none. A pool with a missing slice is incomplete: its devices cannot be allocated, and a
request for all devices has to wait. So is a pool whose slices disagree on their number: kube-scheduler believes the
slice that it happens to see first. A pool in which a name occurs twice is invalid, with the same consequences.

Callers ask for one node at a time, and most slices belong to one node. So pools are indexed by node, and the result for
a node is kept until a slice of one of its pools changes.

As in kube-scheduler's allocator, the slices that match a node decide whether a pool is invalid for that node. Pools are
ordered by driver and name; pools that have devices with binding conditions come last.

DeviceTaintRules are applied to the devices that they select, as in upstream's ResourceSlice tracker: a candidate has
the taints of its driver and the taints of rules in one list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from dra.cel.device_selectors import CompiledSelector, DeviceInput, SelectorError, device_input
from dra.engine.allocator.taint_rules import DeviceTaintRules
from dra.engine.devices.allocator_releases import RELEASE_1_37, AllocatorRelease
from dra.engine.devices.ledger import DeviceID
from dra.engine.devices.node_allocatable import has_node_resources
from dra.engine.devices.semantic_versions import numeric_identifiers, without_build_metadata
from dra.engine.devices.taints import TaintScope
from dra.model import quantities
from dra.model.nodes import NodeSelector, matches_node_selector
from dra.model.slices import Device, ResourceSlice, ResourceSliceSpec
from dra.model.taints import DeviceTaintRule

PoolID: TypeAlias = tuple[str, str]
"""(driver, name of the pool)."""

NodeLabels: TypeAlias = dict[str, str]

AttributeValues: TypeAlias = tuple[str, frozenset[object]]
"""(type of an attribute, its values): one value of a scalar, all values of a list."""

CounterAmounts: TypeAlias = Mapping[tuple[str, str], Fraction]
"""(counter set, counter) → amount."""

SELECTOR_RESULTS_MAX: Final = 64
"""Maximum number of different selectors in the requests of all claims of one pod; so many results are kept for a
device, since claims may bring any number of expressions."""

_NO_LABELS: Final[NodeLabels] = {}

_UINT64_MAX: Final = 2**64 - 1

_SCALAR_TYPES: Final = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}
"""Types of list attributes → type of each of their values."""


class PoolState(Enum):
    """The state of a pool, which decides whether its devices can be allocated."""

    COMPLETE = auto()
    INCOMPLETE = auto()  # slices of the newest generation are missing: the driver is updating the pool
    INVALID = auto()  # a device or a counter set occurs twice, or a device consumes counters that the pool lacks


@dataclass(slots=True, eq=False)
class CandidateDevice:
    """A device in a slice with the results of selectors; there is one object for each device and version of a slice."""

    item: DeviceID
    device: Device
    """The device of the slice, with the taints of DeviceTaintRules beside its own."""

    spec: ResourceSliceSpec
    _input: DeviceInput | None = None
    _results: dict[str, bool | SelectorError] = field(default_factory=dict)

    def matches_selectors(self, selectors: Iterable[CompiledSelector]) -> bool:
        """Report whether all selectors match. Raises SelectorError where a selector fails."""
        for selector in selectors:
            result = self._results.get(selector.expression)
            if result is None:
                if len(self._results) >= SELECTOR_RESULTS_MAX:
                    self._results.clear()
                result = self._results[selector.expression] = self._evaluate(selector)
            if result is not True:
                if result is False:
                    return False
                raise result
        return True

    def evaluate_selectors(self, requests: Sequence[Sequence[CompiledSelector]]) -> Iterator[None]:
        """Evaluate the selectors of several requests, one at a time: `matches_selectors` finds all results afterwards.

        The requests have at most `SELECTOR_RESULTS_MAX` different selectors.
        """
        expressions = {selector.expression for selectors in requests for selector in selectors}
        if len(expressions | self._results.keys()) > SELECTOR_RESULTS_MAX:
            self._results.clear()
        for selectors in requests:
            for selector in selectors:
                if selector.expression not in self._results:
                    self._results[selector.expression] = self._evaluate(selector)
                    yield
                if self._results[selector.expression] is not True:
                    break

    def attribute(self, name: str) -> Mapping[str, object] | None:
        """Return the attribute ``domain/name``; the driver is the domain of names without one."""
        attributes = self.device.attributes or {}
        attribute = attributes.get(name)
        if attribute is None and name.startswith(f"{self.item.driver}/"):
            attribute = attributes.get(name.removeprefix(f"{self.item.driver}/"))
        return attribute or None

    def attribute_values(self, name: str, release: AllocatorRelease = RELEASE_1_37) -> AttributeValues | None:
        """Return type and values of the attribute ``domain/name``, as an allocator of the release compares them.

        A scalar attribute has one value, a list attribute (``DRAListTypeAttributes``) several of the same type. Return
        None for an attribute that the device does not have, and for an attribute without a usable value.
        """
        attribute = self.attribute(name)
        if attribute is None:
            return None
        kind, value = next(iter(attribute.items()))
        elements = value if isinstance(value, list) else [value]
        kind = _SCALAR_TYPES.get(kind, kind)
        if (
            not elements
            or kind not in _SCALAR_TYPES.values()
            or not all(isinstance(element, str | int) for element in elements)
        ):
            return None
        if kind == "version" and release.version_precedence:
            versions = [without_build_metadata(str(version)) for version in elements]
            if any(_exceeds_uint64(number) for version in versions for number in numeric_identifiers(version)):
                return None
            elements = versions
        return kind, frozenset(elements)

    @property
    def consumed_counters(self) -> CounterAmounts:
        """The amounts that the device consumes of the pool's shared counters."""
        return {
            (consumption["counterSet"], name): _parse_quantity(counter["value"])
            for consumption in self.device.consumes_counters or ()
            for name, counter in consumption.get("counters", {}).items()
        }

    def _evaluate(self, selector: CompiledSelector) -> bool | SelectorError:
        try:
            return selector.device_matches(self.item.driver, self.device, self._device_input)
        except SelectorError as error:
            return SelectorError(f"device {self.item}: {error}")

    def _device_input(self) -> DeviceInput:
        if self._input is None:
            self._input = device_input(self.item.driver, self.device)
        return self._input


def _exceeds_uint64(number: str) -> bool:
    """Report whether a number is too great for upstream's parser; the length is compared first, it may be any."""
    longest = str(_UINT64_MAX)
    return len(number) > len(longest) or (len(number) == len(longest) and number > longest)


@lru_cache(maxsize=4096)
def _parse_quantity(text: str) -> Fraction:
    return quantities.parse(text)


class Pool:
    """A pool with its slices, including those of older generations."""

    def __init__(self, key: PoolID, rules: DeviceTaintRules) -> None:
        self.key = key
        self._rules = rules
        self.slices: dict[str, tuple[ResourceSliceSpec, tuple[CandidateDevice, ...]]] = {}
        self._newest: tuple[CandidateDevice, ...] | None = None
        self._counters: CounterAmounts = {}
        self._is_consistent = True
        self._state = PoolState.COMPLETE

    def add_slice(self, name: str, spec: ResourceSliceSpec) -> None:
        """Add or replace a slice of the pool."""
        self.slices[name] = (spec, tuple(self._candidate(device, spec) for device in spec.devices or ()))
        self._newest = None

    def apply_taint_rules(self) -> None:
        """Apply the DeviceTaintRules to all devices again. Selector results stay valid: selectors do not see taints."""
        for spec, candidates in self.slices.values():
            for device, candidate in zip(spec.devices or (), candidates, strict=True):
                candidate.device = self._rules.apply(candidate.item, device)

    def _candidate(self, device: Device, spec: ResourceSliceSpec) -> CandidateDevice:
        driver, pool = self.key
        item = DeviceID(driver=driver, pool=pool, device=device.name)
        return CandidateDevice(item, self._rules.apply(item, device), spec)

    def remove_slice(self, name: str) -> None:
        """Remove a slice that was deleted."""
        del self.slices[name]
        self._newest = None

    @property
    def state(self) -> PoolState:
        """The state of the newest generation.

        Devices with compatibility groups (alpha: DRADeviceCompatibilityGroups) exclude each other by rules that are not
        implemented here. A kube-scheduler without that gate ignores their slices, too, and finds the pool incomplete.
        """
        if any(has_compatibility_groups(candidate.device) for candidate in self.candidates):
            return PoolState.INCOMPLETE
        return self._state

    @property
    def counters(self) -> CounterAmounts:
        """The shared counters of the pool, from which its partitions consume."""
        self._resolve()
        return self._counters

    @property
    def candidates(self) -> tuple[CandidateDevice, ...]:
        """All devices of the newest generation, on any node, in the order of the slices' names."""
        return self._resolve()

    def view_of_node(self, node: str, labels: NodeLabels) -> "PoolView | None":
        """Return the view that a node has of the pool; None if no slice of the newest generation matches the node."""
        usable: list[CandidateDevice] = []
        all_candidates: list[CandidateDevice] = []
        matches = False
        for spec, of_slice in self.newest_slices():
            usable_here = [c for c in of_slice if node_can_use(c, node=node, labels=labels)]
            if usable_here or _slice_matches_node(spec, node, labels):
                matches = True
                usable += usable_here
                all_candidates += of_slice
        if not matches:
            return None
        if self.state is PoolState.INCOMPLETE:
            return PoolView(self, PoolState.INCOMPLETE)
        if not self._is_consistent or len({c.item for c in all_candidates}) != len(all_candidates):
            return PoolView(self, PoolState.INVALID)
        has_binding_conditions = any(c.device.binding_conditions for c in all_candidates)
        candidates = tuple(usable)
        everything = candidates if len(usable) == len(all_candidates) else tuple(all_candidates)
        return PoolView(self, PoolState.COMPLETE, candidates, has_binding_conditions, everything)

    def nodes(self) -> set[str] | None:
        """Return the nodes that the slices of the pool name; None if a slice may match other nodes, too."""
        names = {spec.node_name for spec, _ in self.slices.values()}
        return None if None in names else {name for name in names if name}

    def newest_slices(self) -> list[tuple[ResourceSliceSpec, tuple[CandidateDevice, ...]]]:
        """Return the slices of the highest generation, ordered by name, with their devices."""
        generation = max((spec.pool.generation for spec, _ in self.slices.values()), default=0)
        return [entry for _, entry in sorted(self.slices.items()) if entry[0].pool.generation == generation]

    def _resolve(self) -> tuple[CandidateDevice, ...]:
        if self._newest is not None:
            return self._newest
        slices = self.newest_slices()
        newest = tuple(c for _, candidates in slices for c in candidates)
        sets = [counters for spec, _ in slices for counters in spec.shared_counters or ()]
        self._counters = {
            (counters["name"], name): _parse_quantity(counter["value"])
            for counters in sets
            for name, counter in counters.get("counters", {}).items()
        }
        self._is_consistent = len({counters["name"] for counters in sets}) == len(sets) and all(
            c.consumed_counters.keys() <= self._counters.keys() for c in newest if c.device.consumes_counters
        )
        # Upstream's GatherPools (k8s.io/dynamic-resource-allocation): a driver publishes slice by slice, and a pool is
        # complete once all slices of its newest generation are there.
        if {len(slices)} != {spec.pool.resource_slice_count for spec, _ in slices}:
            self._state = PoolState.INCOMPLETE
        elif not self._is_consistent or len({c.item for c in newest}) != len(newest):
            self._state = PoolState.INVALID
        else:
            self._state = PoolState.COMPLETE
        self._newest = newest
        return newest


def has_compatibility_groups(device: Device) -> bool:
    """Report whether a device has compatibility groups."""
    return any(consumption.get("compatibilityGroups") for consumption in device.consumes_counters or ())


def _slice_matches_node(spec: ResourceSliceSpec, node: str, labels: NodeLabels) -> bool:
    """Report whether a slice matches a node; False if each device of the slice has its own node selection."""
    if spec.node_name is not None:
        return spec.node_name == node
    if spec.per_device_node_selection:
        return False  # node_can_use checks its devices one by one
    return spec.all_nodes is True or _selector_matches_node(spec.node_selector, node, labels)


def node_can_use(candidate: CandidateDevice, *, node: str, labels: NodeLabels) -> bool:
    """Report whether a node can use a device."""
    spec, device = candidate.spec, candidate.device
    if not spec.per_device_node_selection:
        return _slice_matches_node(spec, node, labels)
    return (
        device.node_name == node
        or device.all_nodes is True
        or _selector_matches_node(device.node_selector, node, labels)
    )


def _selector_matches_node(selector: NodeSelector | None, node: str, labels: NodeLabels) -> bool:
    return selector is not None and matches_node_selector(selector, name=node, labels=labels)


class PoolView(NamedTuple):
    """The view that one node has of a pool."""

    pool: Pool
    state: PoolState
    candidates: tuple[CandidateDevice, ...] = ()
    """Devices that the node can use; empty unless the pool is complete."""

    has_binding_conditions: bool = False
    """Whether a device in the slices that match the node has binding conditions."""

    all_candidates: tuple[CandidateDevice, ...] = ()
    """All devices of the slices that match the node; other nodes may be the only ones that can use some of them.

    kube-scheduler evaluates selectors on each of them before it checks where the device can be used.
    """


class NodeDevices(NamedTuple):
    """The views that one node has of all pools, by driver and name; pools with binding conditions come last."""

    node: str
    pools: tuple[PoolView, ...]
    release: AllocatorRelease = RELEASE_1_37
    """The release whose decisions are made."""


class ResourceSliceTracker:
    """All pools of the cluster. ``version`` changes with every observation that may make an allocation possible."""

    def __init__(self, release: AllocatorRelease = RELEASE_1_37) -> None:
        """Create an empty tracker, for the decisions of kube-scheduler's allocator of a release."""
        self.version = 0
        self.release = release
        self._rules = DeviceTaintRules()
        self._slices: dict[str, PoolID] = {}
        self._pools: dict[PoolID, Pool] = {}
        self._pools_by_node: dict[str, set[PoolID]] = {}
        self._pools_of_any_node: set[PoolID] = set()
        self._node_devices: dict[str, tuple[NodeLabels, NodeDevices]] = {}
        self._node_allocatable_slices: set[str] = set()
        """Names of slices with devices that account for resources of nodes."""

    def observe(self, resource_slice: ResourceSlice) -> None:
        """Add or update a ResourceSlice."""
        name, spec = resource_slice.metadata.name, resource_slice.spec
        key = (spec.driver, spec.pool.name)
        known = self._slices.get(name)
        if known is not None and known != key:
            self.forget(name)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(key, self._rules)
        elif name in pool.slices and pool.slices[name][0] == spec:
            return
        self._slices[name] = key
        if any(has_node_resources(device) for device in spec.devices or ()):
            self._node_allocatable_slices.add(name)
        else:
            self._node_allocatable_slices.discard(name)
        self._unindex_pool(pool)
        pool.add_slice(name, spec)
        self._index_pool(pool)

    def forget(self, name: str) -> None:
        """Remove a ResourceSlice that was deleted."""
        key = self._slices.pop(name, None)
        if key is None:
            return
        self._node_allocatable_slices.discard(name)
        pool = self._pools[key]
        self._unindex_pool(pool)
        pool.remove_slice(name)
        if pool.slices:
            self._index_pool(pool)
        else:
            del self._pools[key]

    def observe_release(self, release: AllocatorRelease) -> None:
        """Decide as the allocator of another release: the API server was upgraded, or its version has become known."""
        if release != self.release:
            self.release = release
            self._node_devices.clear()
            self.version += 1

    def observe_rule(self, rule: DeviceTaintRule) -> None:
        """Add or update a DeviceTaintRule."""
        self._apply_taint_rules(self._rules.observe(rule))

    def forget_rule(self, name: str) -> None:
        """Remove a DeviceTaintRule that was deleted."""
        self._apply_taint_rules(self._rules.forget(name))

    def node_devices(self, node: str, labels: NodeLabels | None) -> NodeDevices:
        """Return the views that a node has of all pools."""
        labels = labels or _NO_LABELS
        known = self._node_devices.get(node)
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        keys = sorted(self._pools_of_any_node.union(self._pools_by_node.get(node, ())))
        views = [view for view in (self._pools[key].view_of_node(node, labels) for key in keys) if view is not None]
        ordered = tuple(sorted(views, key=lambda view: view.has_binding_conditions))
        node_devices = NodeDevices(node, ordered, self.release)
        self._node_devices[node] = (labels, node_devices)
        return node_devices

    @property
    def has_node_allocatable_devices(self) -> bool:
        """Whether any device accounts for resources of nodes (DRANodeAllocatableResources)."""
        return bool(self._node_allocatable_slices)

    def device(self, item: DeviceID) -> Device | None:
        """Return a device as the newest generation of its pool describes it; None if it is not there."""
        candidate = self.candidate(item)
        return None if candidate is None else candidate.device

    def candidate(self, item: DeviceID) -> CandidateDevice | None:
        """Return a candidate by the ID of its device; None if it is not in the newest generation of its pool."""
        pool = self._pools.get((item.driver, item.pool))
        if pool is None:
            return None
        return next((c for c in pool.candidates if c.item.device == item.device), None)

    def pool(self, key: PoolID) -> Pool | None:
        """Return a pool; None if none of its slices exists."""
        return self._pools.get(key)

    def pools(self) -> Iterable[Pool]:
        """Return the pools of all drivers."""
        return self._pools.values()

    def confirms_absence(self, item: DeviceID) -> bool:
        """Report whether a device that was not found is gone: its pool does not exist, or is complete without it."""
        pool = self._pools.get((item.driver, item.pool))
        return pool is None or pool.state is PoolState.COMPLETE

    def _apply_taint_rules(self, scopes: Sequence[TaintScope]) -> None:
        """Apply the DeviceTaintRules again to the pools in the given scopes."""
        for (driver, name), pool in self._pools.items():
            if any(scope.driver in {None, driver} and scope.pool in {None, name} for scope in scopes):
                pool.apply_taint_rules()
        self.version += bool(scopes)

    def _index_pool(self, pool: Pool) -> None:
        self.version += 1
        nodes = pool.nodes()
        if nodes is None:
            self._pools_of_any_node.add(pool.key)
            self._node_devices.clear()
        else:
            for node in nodes:
                self._pools_by_node.setdefault(node, set()).add(pool.key)
                self._node_devices.pop(node, None)

    def _unindex_pool(self, pool: Pool) -> None:
        """Remove a pool from the index, before its slices change."""
        nodes = pool.nodes()
        if nodes is None:
            self._pools_of_any_node.discard(pool.key)
            self._node_devices.clear()
            return
        for node in nodes:
            self._node_devices.pop(node, None)
            keys = self._pools_by_node[node]
            keys.discard(pool.key)
            if not keys:
                del self._pools_by_node[node]
