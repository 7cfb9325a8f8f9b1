"""The index of device taints that evict pods, from ResourceSlices and DeviceTaintRules.

Within a pool only the slices of the highest generation count, among all known slices, complete or not: upstream's
eviction does the same. Nothing is reported before all slices are known, since a taint may belong to an old generation.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from dra.engine.instants import NEVER
from dra.model.claims import AllocationResult, DeviceRequestAllocationResult
from dra.model.meta import Struct
from dra.model.slices import ResourceSliceTaints, newest_of_pools
from dra.model.taints import DeviceTaint, DeviceTaintRule, DeviceToleration

PoolId: TypeAlias = tuple[str, str]
"""(driver, name of the pool)."""

Taints: TypeAlias = tuple[DeviceTaint, ...]

_CRITERIA: Final = ("driver", "pool", "device")


class TaintSource(StrEnum):
    """The kind of object that a taint comes from."""

    RULE = "rule"
    SLICE = "slice"


_KINDS: Final = {TaintSource.RULE: "DeviceTaintRule", TaintSource.SLICE: "ResourceSlice"}


class TaintedResult(Struct, frozen=True):
    """A device of an allocation with one of its taints."""

    result: DeviceRequestAllocationResult
    taint: DeviceTaint
    source: TaintSource
    name: str
    """Name of the DeviceTaintRule or ResourceSlice."""

    node: str | None = None
    """The only node whose pods the taint can evict: a slice that names a node does not describe devices elsewhere."""

    @property
    def origin(self) -> str:
        """Return the origin of the taint, as texts name it."""
        return f"{_KINDS[self.source]} {self.name}"

    @property
    def device(self) -> str:
        """Return the device, as texts name it."""
        return f"{self.result.driver}/{self.result.pool}/{self.result.device}"

    def seconds_tolerated(self) -> float:
        """Return the seconds for which the claim tolerates the taint: 0 for not at all, `NEVER` for ever.

        Of several matching tolerations the shortest counts. A toleration without effect tolerates each effect, as the
        API says and kube-controller-manager does since 1.38; up to 1.37 it evicts such a pod nevertheless, if listed.
        """
        tolerations = msgspec.convert(self.result.tolerations or (), list[DeviceToleration])
        matching = [t.toleration_seconds for t in tolerations if t.tolerates(self.taint)]
        if None in matching:
            return NEVER
        return float(max(min((s for s in matching if s is not None), default=0), 0))


class NamedDevice(Protocol):
    """A device identified by its name, in an allocation or in a slice."""

    @property
    def driver(self) -> str:
        """Return the driver that offers the device."""

    @property
    def pool(self) -> str:
        """Return the driver's pool of the device."""

    @property
    def device(self) -> str:
        """Return the device's name in the pool."""


class TaintScope(NamedTuple):
    """The scope of devices whose taints may have changed; None stands for any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def covers(self, named: NamedDevice) -> bool:
        """Return whether the scope includes a device."""
        return (
            self.driver in {None, named.driver}
            and self.pool in {None, named.pool}
            and self.device in {None, named.device}
        )


class _Slice(NamedTuple):
    """The retained part of a ResourceSlice: nearly always next to nothing."""

    pool: PoolId
    node: str | None
    generation: int
    taints: dict[str, Taints]
    devices: int
    """Number of all devices, tainted or not."""

    slice_count: int
    """Number of slices that the pool should have."""


class _DeviceTaints(NamedTuple):
    """The taints of one device, and the slice that declares them."""

    name: str
    node: str | None
    taints: Taints


_NO_TAINTS: Final = _DeviceTaints("", None, ())


class _Rule(NamedTuple):
    scope: TaintScope
    taint: DeviceTaint


class TaintIndex:
    """The index of all evicting taints; observations return the scopes in which claims must be decided again."""

    def __init__(self) -> None:
        self._known = False
        self._slices: dict[str, _Slice] = {}
        self._pools: dict[PoolId, dict[str, _Slice]] = {}
        self._tainted: dict[PoolId, dict[str, _DeviceTaints]] = {}
        """Pool → device → its taints and the slice that it is in; pools without taints are omitted."""

        self._rules: dict[str, _Rule] = {}
        self._all: dict[str, DeviceTaintRule] = {}

    @property
    def rules(self) -> tuple[DeviceTaintRule, ...]:
        """Return all rules, including rules that evict no pod, since these keep devices from being allocated."""
        return tuple(rule for _, rule in sorted(self._all.items()))

    def slices_known(self) -> list[TaintScope]:
        """Record that all slices are known, so that taints are reported from now on."""
        first, self._known = not self._known, True
        return [TaintScope()] if first and (self._tainted or self._rules) else []

    def observe_slice(self, resource_slice: ResourceSliceTaints) -> list[TaintScope]:
        """Record a ResourceSlice from a list or a watch."""
        name, spec = resource_slice.metadata.name, resource_slice.spec
        evicting = {d.name: tuple(t for t in d.taints or () if t.evicts) for d in spec.devices or ()}
        kept = _Slice(
            pool=(spec.driver, spec.pool.name),
            node=spec.node_name,
            generation=spec.pool.generation,
            taints={device: taints for device, taints in evicting.items() if taints},
            devices=resource_slice.spec.offered,
            slice_count=spec.pool.resource_slice_count,
        )
        known = self._slices.get(name)
        if known == kept:
            return []
        moved = self.forget_slice(name) if known is not None and known.pool != kept.pool else []
        self._slices[name] = kept
        self._pools.setdefault(kept.pool, {})[name] = kept
        return [*moved, *self._refresh_pool(kept.pool)]

    def forget_slice(self, name: str) -> list[TaintScope]:
        """Forget a deleted slice, and with it the taints of its devices."""
        known = self._slices.pop(name, None)
        if known is None:
            return []
        slices = self._pools[known.pool]
        del slices[name]
        if not slices:
            del self._pools[known.pool]
        return self._refresh_pool(known.pool)

    def observe_rule(self, rule: DeviceTaintRule) -> list[TaintScope]:
        """Record a DeviceTaintRule from a list or a watch."""
        name, scope = rule.metadata.name, scope_of_rule(rule)
        self._all[name] = rule
        if scope is None or not rule.spec.taint.evicts:
            return self._forget_evicting_rule(name)
        after, before = _Rule(scope, rule.spec.taint), self._rules.get(name)
        self._rules[name] = after
        if before == after:
            return []
        return [scope] if before is None else [before.scope, scope]

    def forget_rule(self, name: str) -> list[TaintScope]:
        """Forget a deleted DeviceTaintRule."""
        self._all.pop(name, None)
        return self._forget_evicting_rule(name)

    def _forget_evicting_rule(self, name: str) -> list[TaintScope]:
        before = self._rules.pop(name, None)
        return [] if before is None else [before.scope]

    def devices_by_driver(self) -> dict[str, int]:
        """Return the number of devices that each driver offers."""
        devices: Counter[str] = Counter()
        for (driver, _), slices in self._pools.items():
            devices[driver] += sum(published.devices for published in newest_of_pools(slices.values()))
        return dict(devices)

    def devices_in_incomplete_pools(self) -> dict[str, int]:
        """Return the number of devices of each driver that cannot be allocated, since slices of their pool are missing.

        A driver whose pools are all complete has 0.
        """
        devices: Counter[str] = Counter()
        for (driver, _), slices in self._pools.items():
            newest = newest_of_pools(slices.values())
            incomplete = {len(newest)} != {published.slice_count for published in newest}
            devices[driver] += sum(published.devices for published in newest) if incomplete else 0
        return dict(devices)

    def taints_of(self, allocation: AllocationResult | None) -> tuple[TaintedResult, ...]:
        """Return the evicting taints of all devices of an allocation."""
        if allocation is None or not self._known or not (self._tainted or self._rules):
            return ()
        return tuple(
            tainted for result in allocation.devices.results or () for tainted in self._taints_of_result(result)
        )

    def _taints_of_result(self, result: DeviceRequestAllocationResult) -> Iterable[TaintedResult]:
        for name, rule in sorted(self._rules.items()):
            if rule.scope.covers(result):
                yield TaintedResult(result=result, taint=rule.taint, source=TaintSource.RULE, name=name)
        published = self._tainted.get((result.driver, result.pool), {}).get(result.device, _NO_TAINTS)
        for taint in published.taints:
            yield TaintedResult(
                result=result, taint=taint, source=TaintSource.SLICE, name=published.name, node=published.node
            )

    def _refresh_pool(self, pool: PoolId) -> list[TaintScope]:
        """Refresh a pool's taints and return the devices whose taints have changed."""
        before = self._tainted.pop(pool, {})
        slices = self._pools.get(pool, {})
        generation = max((s.generation for s in slices.values()), default=0)
        after: dict[str, _DeviceTaints] = {}
        for name, published in sorted((n, s) for n, s in slices.items() if s.taints and s.generation == generation):
            for device, taints in published.taints.items():
                after.setdefault(device, _DeviceTaints(name, published.node, taints))
        if after:
            self._tainted[pool] = after
        changed = (d for d in before.keys() | after.keys() if before.get(d) != after.get(d))
        return [TaintScope(*pool, device) for device in sorted(changed)]


def scope_of_rule(rule: DeviceTaintRule) -> TaintScope | None:
    """Return the devices that a rule selects; None if it selects no device, or has unknown criteria.

    A rule without a selector selects no device, a rule with an empty selector every device. Criteria of v1alpha3 up to
    1.34 (a class, CEL) concern attributes, which no allocation shows; upstream dropped them, and a rule that has them
    taints no device here.
    """
    selector = rule.spec.device_selector
    if selector is None or not selector.keys() <= set(_CRITERIA):
        return None
    return TaintScope(*(selector.get(criterion) for criterion in _CRITERIA))
