"""What drivers offer, by node: pools of devices out of ResourceSlices.

Of a pool only the slices of its highest generation count, and only when all of them are there: in between, a device may
be in two slices or in none. A pool of which a slice is missing is shown as incomplete: its devices cannot be had, and
who wants all devices has to wait. Pools in which a name is there twice are invalid, likewise.

Nodes are asked for one at a time and most slices are of one node, so they are found by node; what is made of them is
kept until a slice of that pool changes.

As in kube-scheduler's allocator, the slices that are meant for a node decide whether a pool is invalid for that node,
and pools come in the order of driver and name, those that have devices with binding conditions last.

DeviceTaintRules are laid over the devices that they select, as upstream's tracker of slices does it: whoever looks at a
candidate finds the taints of its driver and those of rules in one list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from dra.cel.device_selectors import CompiledSelector, DeviceInput, SelectorError, device_input
from dra.engine.allocator.taint_rules import DeviceTaintRules
from dra.engine.devices.ledger import DeviceID
from dra.engine.devices.node_allocatable import has_node_resources
from dra.engine.devices.taints import TaintScope
from dra.model import quantities
from dra.model.nodes import NodeSelector, matches_node_selector
from dra.model.slices import Device, ResourceSlice, ResourceSliceSpec
from dra.model.taints import DeviceTaintRule

PoolID: TypeAlias = tuple[str, str]
"""(driver, name of the pool)."""

NodeLabels: TypeAlias = dict[str, str]

AttributeValues: TypeAlias = tuple[str, frozenset[object]]
"""(type of an attribute, its values): one value, or those of a list."""

CounterAmounts: TypeAlias = Mapping[tuple[str, str], Fraction]
"""(counter set, counter) → amount."""

SELECTOR_RESULTS_MAX: Final = 64
"""Expressions whose answer is kept for a device: claims may bring any number of them."""

_NO_LABELS: Final[NodeLabels] = {}

_SCALAR_TYPES: Final = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}
"""Types of list attributes → type of each of their values."""


class PoolState(Enum):
    """Whether the devices of a pool can be had."""

    COMPLETE = auto()
    INCOMPLETE = auto()  # slices of the newest generation are missing: it is being updated
    INVALID = auto()  # a device or a counter set is in it twice, or a device draws on counters that it does not have


@dataclass(slots=True, eq=False)
class CandidateDevice:
    """A device in a slice, and what selectors have said of it; there is one for each device and version of a slice."""

    item: DeviceID
    device: Device
    """As the slice has it, with the taints of DeviceTaintRules beside its own."""

    spec: ResourceSliceSpec
    _facts: DeviceInput | None = None
    _answers: dict[str, bool | SelectorError] = field(default_factory=dict)

    def satisfies(self, selectors: Iterable[CompiledSelector]) -> bool:
        """Whether all selectors match; raises SelectorError where that cannot be told."""
        for selector in selectors:
            answer = self._answers.get(selector.expression)
            if answer is None:
                if len(self._answers) >= SELECTOR_RESULTS_MAX:
                    self._answers.clear()
                answer = self._answers[selector.expression] = self._ask(selector)
            if answer is not True:
                if answer is False:
                    return False
                raise answer
        return True

    def judge(self, asks: Sequence[Sequence[CompiledSelector]]) -> Iterator[None]:
        """Ask as `satisfies` does for each of the asks, a selector at a time, so that it finds all answers.

        The asks have at most `REMEMBERED` different selectors.
        """
        wanted = {selector.expression for selectors in asks for selector in selectors}
        if len(wanted | self._answers.keys()) > SELECTOR_RESULTS_MAX:
            self._answers.clear()
        for selectors in asks:
            for selector in selectors:
                if selector.expression not in self._answers:
                    self._answers[selector.expression] = self._ask(selector)
                    yield
                if self._answers[selector.expression] is not True:
                    break

    def values(self, name: str) -> AttributeValues | None:
        """Return type and values of the attribute ``domain/name``; the driver is the domain of names without one.

        A scalar attribute has one value, a list attribute (``DRAListTypeAttributes``) several of the same type. None
        stands for an attribute that the device does not have, and for one of a type that is not known here.
        """
        attributes = self.device.attributes or {}
        found = attributes.get(name)
        if found is None and name.startswith(f"{self.item.driver}/"):
            found = attributes.get(name.removeprefix(f"{self.item.driver}/"))
        if not found:
            return None
        kind, value = next(iter(found.items()))
        several = value if isinstance(value, list) else [value]
        kind = _SCALAR_TYPES.get(kind, kind)
        if (
            not several
            or kind not in _SCALAR_TYPES.values()
            or not all(isinstance(each, str | int) for each in several)
        ):
            return None
        return kind, frozenset(several)

    @property
    def consumption(self) -> CounterAmounts:
        """What it takes of the pool's shared counters."""
        return {
            (each["counterSet"], name): _parse_quantity(counter["value"])
            for each in self.device.consumes_counters or ()
            for name, counter in each.get("counters", {}).items()
        }

    def _ask(self, selector: CompiledSelector) -> bool | SelectorError:
        try:
            return selector.selects(self.item.driver, self.device, self._seen)
        except SelectorError as error:
            return SelectorError(f"device {self.item}: {error}")

    def _seen(self) -> DeviceInput:
        if self._facts is None:
            self._facts = device_input(self.item.driver, self.device)
        return self._facts


@lru_cache(maxsize=4096)
def _parse_quantity(text: str) -> Fraction:
    return quantities.parse(text)


class Pool:
    """The slices of a pool, all generations of it."""

    def __init__(self, key: PoolID, rules: DeviceTaintRules) -> None:
        self.key = key
        self._rules = rules
        self.slices: dict[str, tuple[ResourceSliceSpec, tuple[CandidateDevice, ...]]] = {}
        self._newest: tuple[CandidateDevice, ...] | None = None
        self._counters: CounterAmounts = {}
        self._sound = True
        self._state = PoolState.COMPLETE

    def put(self, name: str, spec: ResourceSliceSpec) -> None:
        """Take in a slice."""
        self.slices[name] = (spec, tuple(self._candidate(device, spec) for device in spec.devices or ()))
        self._newest = None

    def lay(self) -> None:
        """Lay the rules over all devices anew; what selectors have said stays true, as no selector sees taints."""
        for spec, candidates in self.slices.values():
            for device, candidate in zip(spec.devices or (), candidates, strict=True):
                candidate.device = self._rules.over(candidate.item, device)

    def _candidate(self, device: Device, spec: ResourceSliceSpec) -> CandidateDevice:
        driver, pool = self.key
        item = DeviceID(driver=driver, pool=pool, device=device.name)
        return CandidateDevice(item, self._rules.over(item, device), spec)

    def remove(self, name: str) -> None:
        """A slice is gone."""
        del self.slices[name]
        self._newest = None

    @property
    def state(self) -> PoolState:
        """Whether its devices can be had.

        Devices with compatibility groups (alpha: DRADeviceCompatibilityGroups) exclude each other by rules that are not
        known here. A scheduler without that gate leaves their slices out, too, and finds the pool incomplete.
        """
        if any(_has_compatibility_groups(candidate.device) for candidate in self.candidates):
            return PoolState.INCOMPLETE
        return self._state

    @property
    def counters(self) -> CounterAmounts:
        """The shared counters of which partitions of its devices take their part."""
        self._resolve()
        return self._counters

    @property
    def candidates(self) -> tuple[CandidateDevice, ...]:
        """All devices of the newest generation, on whichever node, in the order of the slices' names."""
        return self._resolve()

    def on(self, node: str, labels: NodeLabels) -> "PoolView | None":
        """Return what the pool offers to a node; None if no slice of the newest generation is meant for the node."""
        found: list[CandidateDevice] = []
        listed: list[CandidateDevice] = []
        meant = False
        for spec, offered in self._newest_slices():
            there = [c for c in offered if node_can_use(c, node=node, labels=labels)]
            if there or _slice_matches_node(spec, node, labels):
                meant = True
                found += there
                listed += offered
        if not meant:
            return None
        if self.state is PoolState.INCOMPLETE:
            return PoolView(self, PoolState.INCOMPLETE)
        if not self._sound or len({c.item for c in listed}) != len(listed):
            return PoolView(self, PoolState.INVALID)
        conditional = any(c.device.binding_conditions for c in listed)
        candidates = tuple(found)
        everything = candidates if len(found) == len(listed) else tuple(listed)
        return PoolView(self, PoolState.COMPLETE, candidates, conditional, everything)

    def nodes(self) -> set[str] | None:
        """Return the nodes that its slices name; None if they may be for others, too."""
        names = {spec.node_name for spec, _ in self.slices.values()}
        return None if None in names else {name for name in names if name}

    def _newest_slices(self) -> list[tuple[ResourceSliceSpec, tuple[CandidateDevice, ...]]]:
        generation = max((spec.pool.generation for spec, _ in self.slices.values()), default=0)
        return [each for _, each in sorted(self.slices.items()) if each[0].pool.generation == generation]

    def _resolve(self) -> tuple[CandidateDevice, ...]:
        if self._newest is not None:
            return self._newest
        slices = self._newest_slices()
        found = tuple(c for _, candidates in slices for c in candidates)
        sets = [each for spec, _ in slices for each in spec.shared_counters or ()]
        self._counters = {
            (each["name"], name): _parse_quantity(counter["value"])
            for each in sets
            for name, counter in each.get("counters", {}).items()
        }
        self._sound = len({each["name"] for each in sets}) == len(sets) and all(
            c.consumption.keys() <= self._counters.keys() for c in found if c.device.consumes_counters
        )
        if not slices or len(slices) != slices[0][0].pool.resource_slice_count:
            self._state = PoolState.INCOMPLETE
        elif not self._sound or len({c.item for c in found}) != len(found):
            self._state = PoolState.INVALID
        else:
            self._state = PoolState.COMPLETE
        self._newest = found
        return found


def _has_compatibility_groups(device: Device) -> bool:
    """Whether a device has compatibility groups."""
    return any(each.get("compatibilityGroups") for each in device.consumes_counters or ())


def _slice_matches_node(spec: ResourceSliceSpec, node: str, labels: NodeLabels) -> bool:
    """Whether a slice is meant for a node; each device may say so for itself."""
    if spec.node_name is not None:
        return spec.node_name == node
    if spec.per_device_node_selection:
        return False  # its devices are asked one by one
    return spec.all_nodes is True or _selector_matches_node(spec.node_selector, node, labels)


def node_can_use(candidate: CandidateDevice, *, node: str, labels: NodeLabels) -> bool:
    """Whether a node can use a device."""
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
    """What a pool offers to one node."""

    pool: Pool
    state: PoolState
    candidates: tuple[CandidateDevice, ...] = ()
    """Empty unless the pool is complete."""

    conditional: bool = False
    """Whether a device in the slices that are meant for the node has binding conditions."""

    listed: tuple[CandidateDevice, ...] = ()
    """The candidates among all devices of the slices that are meant for the node: some may be of other nodes only.

    kube-scheduler asks selectors about each of them before it looks where the device can be used.
    """


class NodeDevices(NamedTuple):
    """What all pools offer to one node: by driver and name, pools that have devices with binding conditions last."""

    node: str
    shares: tuple[PoolView, ...]
    fractional: bool = False
    """Whether request policies are computed in thousandths (`dra.engine.allocator.consumable_capacity`)."""


class ResourceSliceTracker:
    """All pools. ``version`` changes with everything that may make an allocation possible."""

    def __init__(self, *, fractional: bool = False) -> None:
        """``fractional``: the gate DRAFractionalCapacityRange is on, which no object of the API tells."""
        self.version = 0
        self._fractional = fractional
        self._rules = DeviceTaintRules()
        self._slices: dict[str, PoolID] = {}
        self._pools: dict[PoolID, Pool] = {}
        self._local: dict[str, set[PoolID]] = {}
        self._wide: set[PoolID] = set()
        self._offers: dict[str, tuple[NodeLabels, NodeDevices]] = {}
        self._allocatable: set[str] = set()
        """Slices with devices that have a part in the resources of nodes."""

    def observe(self, found: ResourceSlice) -> None:
        """Take in a slice."""
        name, spec = found.metadata.name, found.spec
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
            self._allocatable.add(name)
        else:
            self._allocatable.discard(name)
        self._unlist(pool)
        pool.put(name, spec)
        self._list(pool)

    def forget(self, name: str) -> None:
        """A slice is gone."""
        key = self._slices.pop(name, None)
        if key is None:
            return
        self._allocatable.discard(name)
        pool = self._pools[key]
        self._unlist(pool)
        pool.remove(name)
        if pool.slices:
            self._list(pool)
        else:
            del self._pools[key]

    def observe_rule(self, rule: DeviceTaintRule) -> None:
        """Take in a DeviceTaintRule."""
        self._lay(self._rules.observe(rule))

    def forget_rule(self, name: str) -> None:
        """A DeviceTaintRule is gone."""
        self._lay(self._rules.forget(name))

    def offer(self, node: str, labels: NodeLabels | None) -> NodeDevices:
        """Return what a node can use."""
        labels = labels or _NO_LABELS
        known = self._offers.get(node)
        if known is not None and (known[0] is labels or known[0] == labels):
            return known[1]
        keys = sorted(self._wide.union(self._local.get(node, ())))
        shares = [share for share in (self._pools[key].on(node, labels) for key in keys) if share is not None]
        offer = NodeDevices(node, tuple(sorted(shares, key=lambda share: share.conditional)), self._fractional)
        self._offers[node] = (labels, offer)
        return offer

    @property
    def allocatable(self) -> bool:
        """Whether any device has a part in the resources of nodes (DRANodeAllocatableResources)."""
        return bool(self._allocatable)

    def device(self, item: DeviceID) -> Device | None:
        """Return what the newest generation of its pool says of a device."""
        found = self.candidate(item)
        return None if found is None else found.device

    def candidate(self, item: DeviceID) -> CandidateDevice | None:
        """Return a device by its name, if it is in the newest generation of its pool."""
        pool = self._pools.get((item.driver, item.pool))
        if pool is None:
            return None
        return next((c for c in pool.candidates if c.item.device == item.device), None)

    def settled(self, item: DeviceID) -> bool:
        """Whether a device that is not to be found is gone: nobody offers its pool, or all of the pool is there."""
        pool = self._pools.get((item.driver, item.pool))
        return pool is None or pool.state is PoolState.COMPLETE

    def _lay(self, scopes: Sequence[TaintScope]) -> None:
        """Lay the rules over the pools in which they select other devices than before."""
        for (driver, name), pool in self._pools.items():
            if any(each.driver in {None, driver} and each.pool in {None, name} for each in scopes):
                pool.lay()
        self.version += bool(scopes)

    def _list(self, pool: Pool) -> None:
        self.version += 1
        nodes = pool.nodes()
        if nodes is None:
            self._wide.add(pool.key)
            self._offers.clear()
        else:
            for node in nodes:
                self._local.setdefault(node, set()).add(pool.key)
                self._offers.pop(node, None)

    def _unlist(self, pool: Pool) -> None:
        """Take a pool out of the index, before its slices change."""
        nodes = pool.nodes()
        if nodes is None:
            self._wide.discard(pool.key)
            self._offers.clear()
            return
        for node in nodes:
            self._offers.pop(node, None)
            keys = self._local[node]
            keys.discard(pool.key)
            if not keys:
                del self._local[node]
