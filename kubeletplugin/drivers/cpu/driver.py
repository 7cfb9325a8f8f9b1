"""The driver ``cpu.reserve.dra``: exclusive CPUs for claims; `cpuset_enforcer` writes the cpusets."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec.structs import replace

from dra.engine.cpus.cpu_assignments import CpuAssignments
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet
from dra.engine.cpus.node_policies import NO_NODE_POLICIES
from dra.engine.cpus.topology import Cpu, CpuTopology
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.engine.reservations import node_reservation
from dra.engine.reservations.node_reservation import ReservedCpus
from dra.engine.suppression.decide import CpuCandidates
from dra.model.quantities import Amounts
from kubeletplugin.cgroups.hierarchy import CGROUP_ROOT, CgroupHierarchy, find_hierarchy
from kubeletplugin.contract import (
    ClaimIdentity,
    ContainerEdits,
    DeviceHealthState,
    Hook,
    Pool,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
    PrepareRequest,
    base_request_name,
)
from kubeletplugin.drivers.cpu import cpu_allocator, prepared_cpus
from kubeletplugin.drivers.cpu.cpu_manager import KubeletCpuManager, KubeletCpus
from kubeletplugin.drivers.cpu.cpu_places import describe_moved_cpus, places_state, recorded_places
from kubeletplugin.drivers.cpu.cpuset_enforcer import CpusetEnforcer
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore, cpu_owner_name
from kubeletplugin.drivers.cpu.device_modes import DEVICE_MODES, PublishedCpus
from kubeletplugin.drivers.cpu.devices import CpuDeviceMode, default_reserved_cpus
from kubeletplugin.drivers.cpu.node_device import HeldCpus
from kubeletplugin.drivers.cpu.topology_report import CpuReport
from kubeletplugin.ticks import until_tick

log = logging.getLogger(__name__)

DRIVER_NAME: Final = "cpu.reserve.dra"

SHELL: Final = "/bin/sh"
"""Shell that runs the hook, which then also works on a file system that is mounted noexec."""

POLL_INTERVAL: Final = 5.0
"""Seconds between two checks of the inputs of the published devices: online CPUs, the kubelet's CPU manager."""


class CpuTopologySource(Protocol):
    """A source of a machine's CPU topology, read on demand."""

    def read(self) -> CpuTopology:
        """Return the current topology of the machine."""
        ...

    def mark(self) -> str:
        """Return a fingerprint, cheap to read, that changes when the topology may have changed."""
        ...


class CpuDriver:
    """The DRA driver for CPUs; implements `kubeletplugin.contract.Driver`."""

    name = DRIVER_NAME

    def __init__(  # noqa: PLR0913 - keyword-only, and most have a default
        self,
        source: CpuTopologySource,
        *,
        node: str,
        folder: Path,
        kubelet: Path = Path("/var/lib/kubelet"),
        mode: CpuDeviceMode = CpuDeviceMode.INDIVIDUAL,
        reserved: CpuSet | None = None,
        find_cgroups: Callable[[], CgroupHierarchy] | None = lambda: find_hierarchy(CGROUP_ROOT),
        volatile: Path | None = None,
    ) -> None:
        """Read the topology and install the hook in `folder`, the driver's own directory.

        Reserved CPUs are never allocated; by default one core is reserved.

        `volatile` is a directory that is empty after a reboot, as cgroups are, and is not the driver's own.

        Without `find_cgroups`, CPUs are only named in the environment: for nodes of the local plane, whose containers
        have no cgroups.

        Raises ValueError if no reserved CPU is online, OSError if the hook cannot be written.
        """
        self._source = source
        self._mark = source.mark()
        topology = source.read()
        kept = default_reserved_cpus(topology) if reserved is None else reserved
        if not kept & topology.online:
            raise ValueError(
                f"node {node}: reserved CPUs {kept or '(none)'}: none is online (online: {topology.online}), "
                "but containers without CPUs of their own need at least one"
            )
        self._node = node
        self._mode = DEVICE_MODES[mode]
        self._faults: set[str] = set()
        self._manager = KubeletCpuManager(kubelet, counts_beside_static=self._mode.counts_beside_static)
        self._store = CpusetStore(folder, mark=volatile and volatile / f".{DRIVER_NAME}.narrowed")
        self._store.install()
        self._system = kept
        self._kept = self._stored_kept = self._store.kept()
        self._policies = NO_NODE_POLICIES
        self._held = HeldCpus()
        stored = self._store.demand()
        self._best_effort_limit = NO_CPUS if stored is None else stored.best_effort_limit
        self._prepared: tuple[PreparedClaim, ...] = ()
        """The claims of the last enforcement."""
        self._inputs_changed = asyncio.Event()
        """Set when the Node's reservation or labels have changed, the limit of the class BestEffort, or what claims
        leave of the node's device."""
        self._known = NO_CPUS
        """CPUs that were allocatable since the start."""
        self._places: dict[int, Cpu] = {}
        """The last known places of CPUs, those that are offline included."""
        self._apply_topology(topology)
        self._enforcement = find_cgroups and CpusetEnforcer(
            self._store, find_cgroups, blocked_reason=self._cgroups_blocked_reason
        )

    @property
    def disabled_reason(self) -> str | None:
        """The reason why the driver publishes and prepares nothing; None if it does."""
        aside = self._manager.active()
        return aside.why if aside and self._kubelet_cpus is None else None

    @property
    def _kubelet_cpus(self) -> KubeletCpus | None:
        """The CPUs as the kubelet has divided them, if the driver only counts CPUs beside the kubelet; else None."""
        aside = self._manager.active() if self._mode.counts_beside_static else None
        return aside.allocations if aside else None

    @property
    def degraded_reason(self) -> str:
        """The reason why no CPUs are allocated; empty if they are."""
        why = self.disabled_reason
        return f"no CPUs are allocated on this node: {why}" if why else ""

    def _cgroups_blocked_reason(self) -> str | None:
        """Return the reason why cgroups must not be written; None if they may."""
        aside = self._manager.active()
        return aside.why if aside and aside.written else None

    @property
    def _initial_division(self) -> CpuAssignments:
        """The assignment of CPUs before any claim has CPUs.

        If the Node's annotation keeps all CPUs that are reserved for the system, or all are isolated, another core is
        reserved: containers without CPUs of their own need at least one CPU that is not isolated.
        """
        topology = self._topology
        reserved, rest = self._system, topology.online - self._kept
        usable = rest - topology.isolated or rest
        if not reserved & usable and usable:
            reserved |= topology.cores[topology.by_id[min(usable)].core] & usable
        return CpuAssignments(topology=topology, reserved=reserved, node_reserved=self._kept)

    def apply_node_reservation(self, annotation: str | None, *, allocatable: Amounts) -> ReservedCpus:
        """Stop allocating the CPUs that the Node's annotation reserves; choose CPUs for an amount without names."""
        online = self._topology.online
        asked = node_reservation.parse(annotation, allocatable=allocatable or None, online=online)
        cpus = node_reservation.select_reserved_cpus(asked, self._topology)
        if cpus != self._kept:
            log.info("node %s: the annotation reserves CPUs %s, before: %s", self._node, cpus or "(none)", self._kept)
            self._kept = cpus
            self._apply_topology(self._topology)
            self._inputs_changed.set()
        if cpus != self._stored_kept:  # also where an earlier attempt has failed
            self._store.put_kept(cpus)
            self._stored_kept = cpus
        return node_reservation.reserved_cpus(cpus, self._topology)

    def apply_node_labels(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Follow the Node's labels with policies for CPUs; return a text about each label with an unknown value.

        Only the device of mode *node* is subject to these labels. They are not stored: until the Node has been read
        after a start, no claim can be read either.
        """
        policies, problems = self._mode.policies(labels)
        if policies != self._policies:
            log.info("node %s: labels set the CPU policies %s", self._node, policies)
            self._policies = policies
            self._apply_topology(self._topology)
            self._inputs_changed.set()
        return problems

    def pools(self) -> tuple[Pool, ...]:
        """Return the pool of allocatable CPUs; empty while the kubelet's CPU manager allocates CPUs."""
        if self.disabled_reason:
            return (Pool(name=self._node, devices=()),)
        return self._pools

    def health(self) -> tuple[DeviceHealthState, ...]:
        """Return the health of the devices: a CPU is unhealthy if offline, or if other containers may run on it.

        CPUs of prepared claims are reported whether or not they were online since the start.
        """
        everybodys = None if self._kubelet_cpus is not None else self._cgroups_blocked_reason()
        moved = {
            cpu: f"CPUs of {preparation.claim}: {text}"
            for preparation in self._prepared
            if (text := describe_moved_cpus(preparation, self._topology))
            for cpu in prepared_cpus.claim_cpus(preparation)
        }

        def of(device: str, flaw: str) -> DeviceHealthState:
            flaw = f"other containers may run on it: {everybodys}" if everybodys else flaw
            return DeviceHealthState(pool=self._node, device=device, healthy=not flaw, message=flaw)

        cpus = self._known | prepared_cpus.held_cpus(self._prepared).cpus
        published = (device for pool in self._pools for device in pool.devices)
        flaws = self._mode.flaws(published, cpus, online=self._topology.online, moved=moved)
        return tuple(of(device, flaw) for device, flaw in flaws)

    async def changes(self) -> AsyncIterator[None]:
        """Yield when the online CPUs, the Node's reservation or labels, or the kubelet's CPU manager changed."""
        aside, kubelet = self.disabled_reason, self._kubelet_cpus
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._inputs_changed.wait(), until_tick(POLL_INTERVAL))
            inputs_changed = self._inputs_changed.is_set()
            self._inputs_changed.clear()
            before, aside = (aside, kubelet), self.disabled_reason
            if (kubelet := self._kubelet_cpus) != before[1]:
                self._apply_topology(self._topology)
            if await self._refresh_topology() or (aside, kubelet) != before or inputs_changed:
                yield

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return the prepared claim with its CPUs; raises PrepareError."""
        if why := self.disabled_reason:
            raise PrepareError(f"{request.claim}: no CPUs are allocated on this node: {why}")
        if self._kubelet_cpus is not None:
            return self._count(request)
        self._refresh_topology_now(request.claim)
        chosen = cpu_allocator.allocate_cpus(self._initial_division, request, others, policies=self._policies)
        state = prepared_cpus.prepared_state(request, chosen)
        state |= places_state((cpu for share in chosen for cpu in share.cpus), self._topology)
        hooked: set[str] = set()
        prepared = []
        for result in request.results:
            name = base_request_name(result.request)
            # A container gets all devices of the requests it refers to: the first device carries the CPUs of all.
            first = name in state["requests"] and name not in hooked and not result.admin_access
            if first:
                hooked.add(name)
            # In an aligned claim, containers with GPUs refer to their request for GPUs, and run on the CPUs as well.
            of_all = first and prepared_cpus.is_aligned(request)
            prepared.append(
                PreparedDevice(
                    requests=() if of_all else (name,),
                    pool=result.pool,
                    device=result.device,
                    share=result.share_id or "",
                    admin=bool(result.admin_access),
                    edits=self._edits(request, name, state["requests"][name]) if first else ContainerEdits(),
                )
            )
        return PreparedClaim(claim=request.claim, driver=DRIVER_NAME, devices=tuple(prepared), state=state)

    def _count(self, request: PrepareRequest) -> PreparedClaim:
        """Return the prepared claim of a pod to which the kubelet gives CPUs: nothing but a number is recorded."""
        counted = cpu_allocator.count_cpus(self._topology, request, policies=self._policies)
        prepared = (
            PreparedDevice(
                requests=(base_request_name(result.request),),
                pool=result.pool,
                device=result.device,
                share=result.share_id or "",
                admin=bool(result.admin_access),
            )
            for result in request.results
        )
        return PreparedClaim(
            claim=request.claim,
            driver=DRIVER_NAME,
            devices=tuple(prepared),
            state=prepared_cpus.prepared_state(request, counted),
        )

    def recheck(self, preparation: PreparedClaim) -> PreparedClaim:
        """Return the prepared claim: its edits name CPUs, which are the same or refused.

        Raises PrepareError if a request has no CPU online, or if the claim's CPUs are others by now.
        """
        self._refresh_topology_now(preparation.claim)
        if flaw := _unusable_reason(preparation, self._topology):
            raise PrepareError(
                f"{preparation.claim}: {flaw}; delete the claim's pods, so that the claim is allocated again",
                reason=PrepareRefusalReason.CPUS_UNSUITABLE,
            )
        return preparation

    def claim_impairments(self) -> tuple[str, ...]:
        """Return a text about each prepared claim whose containers lack CPUs of the claim."""
        texts = []
        for preparation in self._prepared:
            claim, cpus = preparation.claim, prepared_cpus.claim_cpus(preparation)
            gone = cpus - self._topology.online
            if flaw := _unusable_reason(preparation, self._topology):
                texts.append(f"{claim}: {flaw}; delete the claim's pods, so that the claim is allocated again")
            elif gone:
                texts.append(
                    f"{claim}: CPUs {gone} of its CPUs {cpus} are offline; its containers run on {cpus - gone}, "
                    "and on all of them once these CPUs are online again"
                )
        return (*texts, *(self._enforcement.unclear if self._enforcement is not None else ()))

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Enforce the cpusets: only the containers of these claims run on the claims' CPUs. Raises PrepareError."""
        held = tuple(preparations)
        faults = set(cpu_allocator.divide_among_claims(self._initial_division, held).inconsistencies())
        for fault in sorted(faults - self._faults):  # once, not at every reconciliation
            log.warning("node %s: %s", self._node, fault)
        self._faults = faults
        self._prepared = held
        self._publish_held_cpus(prepared_cpus.held_cpus(held))
        if self._enforcement is not None:
            self._refuse_containers()
            await self._enforcement.demand(self._demand())

    def _refuse_containers(self) -> None:
        """Have the hook refuse containers of claims whose CPUs are others by now; raises PrepareError."""
        moved = {
            preparation.claim.uid: describe_moved_cpus(preparation, self._topology) for preparation in self._prepared
        }
        advice = "delete the pod, so that the claim is allocated again"
        try:
            self._store.put_refusals({uid: f"{text}; {advice}" for uid, text in moved.items() if text})
        except OSError as error:
            raise PrepareError(f"node: CPUs are not enforced: directory {self._store.folder}: {error}") from error

    def _demand(self) -> CpusetDemand:
        """Return the cpusets that the prepared claims need."""
        requests = {
            cpu_owner_name(preparation.claim.uid, request): cpus
            for preparation in self._prepared
            for request, cpus in prepared_cpus.request_cpusets(preparation).items()
        }
        return CpusetDemand(
            requests=requests,
            apart=self._topology.isolated,
            kept=self._kept,
            best_effort=prepared_cpus.best_effort_cpus(self._prepared),
            best_effort_limit=self._best_effort_limit,
        )

    def best_effort_candidates(self) -> CpuCandidates | None:
        """Return the CPUs that containers of the class BestEffort may have; None while no cpusets are written."""
        if self._enforcement is None or self._cgroups_blocked_reason():
            return None
        topology = self._topology
        pools = replace(self._demand(), best_effort_limit=NO_CPUS).pools(topology.online)
        return CpuCandidates(
            topology=topology,
            shared=(pools.shared - topology.isolated) or pools.shared,
            lsr=pools.best_effort - pools.shared,
        )

    @property
    def best_effort_limit(self) -> CpuSet:
        """The CPUs that containers of the class BestEffort are limited to; none without a limit.

        The limit of an earlier process stays until it is lifted: a restart must not give the class all CPUs.
        """
        return self._best_effort_limit

    def limit_best_effort(self, cpus: CpuSet) -> None:
        """Limit containers of the class BestEffort to these CPUs; without any, lift the limit."""
        if cpus != self._best_effort_limit:
            level = logging.DEBUG if cpus and self._best_effort_limit else logging.INFO  # others may come each second
            text = "node %s: containers of the class BestEffort are limited to CPUs %s"
            log.log(level, text, self._node, cpus or "(all)")
            self._best_effort_limit = cpus
            self._inputs_changed.set()

    def device_data(self, preparation: PreparedClaim) -> Mapping[int, dict[str, Any]]:
        """Return the CPUs of each device of a claim; only mode *node* reports them, where no device name tells them."""
        return self._mode.device_data(preparation, self._kubelet_cpus, online=self._topology.online)

    def topology_annotations(self) -> Mapping[str, str]:
        """Return the description of the node's CPUs in Koordinator's annotations; only mode *node* has one."""
        return self._mode.topology_annotations(self._topology, self._report)

    def _report(self) -> CpuReport:
        kubelet, online = self._kubelet_cpus, self._topology.online
        return CpuReport(
            # Without the limit of the class BestEffort, which may be another one each second.
            pools=replace(self._demand(), best_effort_limit=NO_CPUS).pools(
                online if kubelet is None else online & kubelet.shared
            ),
            prepared=self._prepared,
            kubelet=kubelet,
            kubelet_reserved=self._system,
        )

    async def resume_enforcement(self) -> None:
        """Enforce the cpusets of ``demand.json`` while the checkpoint cannot be read; raises PrepareError."""
        if self._enforcement is not None:
            await self._enforcement.resume_enforcement()

    async def close(self) -> None:
        """Stop reconciling cgroups; containers keep their CPUs."""
        if self._enforcement is not None:
            await self._enforcement.close()

    def _apply_topology(self, topology: CpuTopology) -> None:
        self._topology = topology
        self._places |= topology.by_id
        allocatable = self._initial_division.allocatable
        cpus = PublishedCpus(
            topology=topology,
            allocatable=allocatable,
            policies=self._policies,
            held=self._held,
            offline=self._offline_held_cpus(),
            kubelet=self._kubelet_cpus,
        )
        self._pools = (Pool(name=self._node, devices=self._mode.build(cpus), taintable=self._mode.taintable),)
        self._known |= allocatable

    def _offline_held_cpus(self) -> tuple[Cpu, ...]:
        """Return the CPUs that prepared claims hold and that are offline, as far as their places are known."""
        offline = self._held.cpus - self._topology.online - self._kept - self._system
        if not offline:
            return ()
        recorded = (recorded_places(preparation).items() for preparation in self._prepared)
        places = {cpu: place for places in recorded for cpu, place in places} | self._places
        return tuple(places[cpu] for cpu in offline if cpu in places)

    def _publish_held_cpus(self, held: HeldCpus) -> None:
        """Publish what prepared claims leave of the node's device, and the offline CPUs that they hold."""
        online, known, before = self._topology.online, self._held, self._pools
        self._held = held
        if not self._mode.depends_on(held, before=known, online=online):
            return
        self._apply_topology(self._topology)
        if self._pools != before:
            self._inputs_changed.set()

    async def _refresh_topology(self) -> bool:
        mark = self._source.mark()
        if mark == self._mark:
            return False
        self._apply_topology(await asyncio.to_thread(self._source.read))  # 2,000 files on a machine with 256 CPUs
        self._mark = mark
        return True

    def _refresh_topology_now(self, claim: ClaimIdentity) -> None:
        """Read the topology if it has changed since the last poll; raises PrepareError."""
        mark = self._source.mark()
        if mark == self._mark:
            return
        try:
            self._apply_topology(self._source.read())
        except Exception as error:  # a source may be anybody's
            raise PrepareError(f"{claim}: the CPUs of the node cannot be read: {error}; the kubelet retries") from error
        self._mark = mark
        self._inputs_changed.set()

    def _edits(self, request: PrepareRequest, name: str, cpus: str) -> ContainerEdits:
        uid = request.claim.uid
        variable = f"DRA_CPUSET_{uid}_{name}".replace("-", "_")
        edits = ContainerEdits(env=(f"{variable}={cpus}",))
        if self._enforcement is None:
            return edits
        arguments = ("sh", str(self._store.hook), uid, name, cpus, *self._mode.hook_arguments)
        return replace(edits, hooks=(Hook(hook_name="createRuntime", path=SHELL, args=arguments),))


def _unusable_reason(preparation: PreparedClaim, topology: CpuTopology) -> str:
    """Return why containers cannot use a prepared claim on the machine of now; empty if they can."""
    for request, cpus in prepared_cpus.request_cpusets(preparation).items():
        if not cpus & topology.online:
            return f"request {request}: none of its CPUs {cpus} is online (online: {topology.online})"
    return describe_moved_cpus(preparation, topology)
