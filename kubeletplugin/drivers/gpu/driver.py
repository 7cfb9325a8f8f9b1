"""The driver ``gpu.reserve.dra``: publishes the GPUs of an inventory and prepares claims for them.

A GPU is allocated to one claim as a whole, for all containers of the claim; or, with shares enabled, to several claims
that each requested a part of its memory and compute. Processes on a GPU are not isolated from each other: they compute
in time slices (`dra.api.parameters.gpu`). The time slice is a property of the GPU, so claims that share a GPU must
agree on it.

What is prepared is a card, not a name: a prepared claim contains the identity of its GPUs (`prepared_gpus`), and each
look at the node is compared with it. Minors, files and device nodes are taken from that look, never from earlier ones.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dra.api.parameters.applicable import last_applicable
from dra.api.parameters.time_slices import TimeSliceInterval
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Uid
from dra.model.quantities import parse
from kubeletplugin.contract import (
    ContainerEdits,
    DeviceHealthState,
    DeviceReport,
    DevicesInUseError,
    NotEnforcedError,
    OpaqueParameters,
    Pool,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.drivers.gpu.container_edits import GpuContainerEdits, GrantedConfig, granted_by
from kubeletplugin.drivers.gpu.device_names import DeviceNames, DeviceNamesError, card_of
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME, GpuPublishOptions, build_gpu_devices
from kubeletplugin.drivers.gpu.prepared_gpus import (
    cards_by_name,
    held_card,
    identity_of,
    is_card,
    time_slices_by_uuid,
    time_slices_of,
)
from kubeletplugin.drivers.gpu.time_slices import TimeSlicingManager
from kubeletplugin.inventory.gpu_use import GpuUse, GpuUseSource
from kubeletplugin.inventory.gpus import (
    GPU_LOST,
    NO_DRIVER_FILES,
    Gpu,
    GpuFault,
    GpuInventory,
    GpusUnavailableError,
    MarkedGpuInventory,
)

if TYPE_CHECKING:
    from dra.api.parameters.gpu import GpuConfig

log = logging.getLogger(__name__)

RETRY_INTERVAL: Final = 10.0
"""Seconds between two attempts to read an inventory that was unavailable at the start."""

REFRESH_TIMEOUT: Final = 10.0
"""Seconds that claims wait for the inventory after the kernel driver was loaded again; a lost GPU can block it."""

_VANISHED: Final = "has vanished from the node, or is partitioned"
_WAY_OUT: Final = "recreate the pod, and all other pods of the claim, so that another device is allocated"
_END: Final = object()
_MAX_NAMES_SHOWN: Final = 8
"""Maximum number of devices that a message lists."""


class GpuDriver:
    """The DRA driver for the GPUs of this node, in a pool with the node's name."""

    def __init__(  # noqa: PLR0913 - keyword-only; what it is put together from
        self,
        inventory: GpuInventory,
        *,
        node: str,
        edits: GpuContainerEdits,
        time_slicing: TimeSlicingManager,
        publication: GpuPublishOptions = GpuPublishOptions(),  # noqa: B008 - frozen
        names: DeviceNames | None = None,
        served_before: bool = False,
    ) -> None:
        """Read the inventory; raises the inventory's errors, GpusUnavailableError only without `served_before`.

        `served_before` means that claims may have to be unprepared, whose pods could not end without the driver. So the
        driver then starts without its GPUs, and publishes none. Without `names`, names last as long as this process.
        """
        self._inventory = inventory
        # Asked once: a look at all methods of a protocol costs as much as a small claim.
        self._marked = inventory if isinstance(inventory, MarkedGpuInventory) else None
        self._node = node
        self._edits = edits
        self._time_slicing = time_slicing
        self._publication = publication
        self._names = names or DeviceNames()
        self._mark: Hashable = None
        self._read: tuple[Gpu, ...] = ()
        """The GPUs of the last reading, without names."""
        self._gpus: dict[str, Gpu] = {}
        self._named: tuple[Gpu, ...] = ()
        """The same GPUs, in order."""
        self._examined: tuple[Gpu, ...] = ()
        """GPUs whose files are looked at: those that are neither lost nor partitioned."""
        self._examined_flaws: list[str] = []
        """The flaw of each, as of the last look."""
        self._default_slices: dict[str, TimeSliceInterval] = {}
        """The default time slice of each GPU, by uuid."""
        self._common: dict[str, ContainerEdits] = {}
        """Edits by driver version, of the last look at the node."""
        self._pools: tuple[Pool, ...] = ()
        self._known_devices: frozenset[str] = frozenset()
        """Names of devices that this process has published, or that claims hold."""
        self._held_names: frozenset[str] | None = None
        """Names that claims hold; None before the first enforcement, which must precede the recording of names."""
        self._withheld_reason = ""
        """The reason why GPUs whose names are not recorded are not published; empty if all are recorded."""
        self._told: set[tuple[Uid, str, str]] = set()
        """Claims on faulty GPUs that the log has named, with device and faults."""
        self._flaws: dict[str, str] = {}
        self._changed = asyncio.Event()
        """Set when a refresh has changed the answers of `pools` or `health`."""
        self._one_reader = asyncio.Lock()
        self._rereading: asyncio.Task[None] | None = None
        self.degraded_reason = ""
        try:
            self._take(self._look())
        except GpusUnavailableError as error:
            if not served_before:
                raise
            self._degrade(error)

    @property
    def name(self) -> str:
        """The name of the driver, ``gpu.reserve.dra``."""
        return DRIVER_NAME

    def read_use(self) -> tuple[GpuUse, ...]:
        """Return what each GPU does, as far as the inventory knows; may take seconds."""
        return self._inventory.read_use() if isinstance(self._inventory, GpuUseSource) else ()

    def pools(self) -> tuple[Pool, ...]:
        """Return the pool of this node's GPUs; a pool without GPUs removes the slices of an earlier run."""
        return self._pools

    def health(self) -> tuple[DeviceHealthState, ...]:
        """Return the health of the GPUs, including published or claimed GPUs that have vanished."""
        usable = [gpu for gpu in self._gpus.values() if not gpu.partitioning]
        gone = sorted(self._known_devices - {gpu.name for gpu in usable})
        known, text = (None, self.degraded_reason) if self.degraded_reason else (False, _VANISHED)
        return (
            *(_device_health(gpu, self._node) for gpu in usable),
            *(DeviceHealthState(pool=self._node, device=name, healthy=known, message=text) for name in gone),
        )

    def device_report(self, prepared: Iterable[PreparedClaim]) -> DeviceReport | None:
        """Return the GPUs and the claims on them as Koordinator's Device describes them; None while degraded."""
        from kubeletplugin.drivers.gpu.device_report import device_report  # noqa: PLC0415 - with pydantic, 13 MiB

        return None if self.degraded_reason else device_report(self._gpus.values(), prepared)

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever the inventory has changed, or a refresh has found a change."""
        while True:
            while self.degraded_reason:
                await asyncio.sleep(RETRY_INTERVAL)
                with contextlib.suppress(GpusUnavailableError):
                    await self._reread()
                    yield
            async with contextlib.aclosing(self._news()) as news:
                async for _ in news:
                    yield
            if not self.degraded_reason:
                return

    async def _news(self) -> AsyncGenerator[None, None]:
        """Yield at each change until the driver is degraded; end with the inventory's changes."""
        async with contextlib.aclosing(_merged(self._inventory.changes(self._read), self._changed)) as news:
            async for of_inventory in news:
                if of_inventory:
                    await self._reread()
                yield
                if self.degraded_reason:
                    return

    async def refresh(self) -> None:
        """Read the GPUs again if the kernel driver or its GPUs have changed, and look for the driver's files."""
        before = self._named
        if self.degraded_reason:
            return  # `changes` tries again
        if self._rereading is not None or self._current_mark() != self._mark:
            await self._reread_soon()
        else:
            self._look_for_files(self._common)
            if list(map(self._edits.flaw, self._examined)) != self._examined_flaws:
                self._take(self._read)
        if self._named != before:
            self._changed.set()

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return the prepared claim with its container edits. Raises PrepareError."""
        claim = f"claim {'/'.join(request.claim.key)}"
        configs = [(parameters.requests, self._decoded(parameters, claim)) for parameters in request.configuration]
        others = tuple(others)
        slices = time_slices_by_uuid(others)
        prepared = []
        gpus = []
        wanted: dict[str, str] = {}
        for result in request.results:
            where = f"{claim}: request {result.request}"
            gpu = self._gpu(result.pool, result.device, where)
            if not result.admin_access:
                self._verify_free(gpu, others, where)
            granted = self._granted(gpu, result, last_applicable(configs, result.request), where)
            if granted.time_slice is not TimeSliceInterval.DEFAULT:
                set_before = slices.get(gpu.uuid) or wanted.get(gpu.name, granted.time_slice)
                if granted.time_slice != set_before:
                    raise PrepareError(
                        f"{where}: GpuConfig.sharing.timeSlicingConfig.interval: {granted.time_slice} conflicts "
                        f"with {set_before}, which another claim has set for {gpu.name}; "
                        f"request {set_before} or Default"
                    )
                if gpu.uuid and not result.admin_access:
                    wanted[gpu.name] = granted.time_slice
            self._tell_faults(request.claim.uid, gpu, where)
            gpus.append(gpu)
            prepared.append(
                PreparedDevice(
                    requests=(result.request.partition("/")[0],),
                    pool=result.pool,
                    device=result.device,
                    share=result.share_id or "",
                    admin=bool(result.admin_access),
                    edits=self._edits.device(gpu, granted),
                    identity=identity_of(card_of(gpu)),
                )
            )
        return PreparedClaim(
            claim=request.claim,
            driver=DRIVER_NAME,
            devices=tuple(prepared),
            common=self._common_edits(gpus),
            state={"timeSlices": wanted} if wanted else {},
        )

    def recheck(self, preparation: PreparedClaim) -> PreparedClaim:
        """Return the prepared claim with the edits of its GPUs as they are now. Raises PrepareError.

        A GPU that is faulty, but usable, is only logged.
        """
        where = str(preparation.claim)
        self._adopt((preparation,))
        slices = time_slices_of(preparation)
        gpus, devices = [], []
        for device in preparation.devices:
            gpu = self._held_gpu(device, where)
            self._tell_faults(preparation.claim.uid, gpu, where)
            granted = granted_by(device.edits, time_slice=slices.get(device.device, TimeSliceInterval.DEFAULT))
            gpus.append(gpu)
            edits, identity = self._edits.device(gpu, granted), identity_of(card_of(gpu))
            devices.append(replace(device, edits=edits, identity=identity))
        return replace(preparation, devices=tuple(devices), common=self._common_edits(gpus))

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Set the time slices that claims request, and reset those of other GPUs. Raises NotEnforcedError.

        Also records the names of GPUs, before these are published; raises PrepareError if that fails.
        """
        held = tuple(preparations)
        names = frozenset(
            device.device for preparation in held for device in preparation.devices if device.pool == self._node
        )
        self._known_devices |= names
        if self._told:
            uids = {preparation.claim.uid for preparation in held}
            self._told = {entry for entry in self._told if entry[0] in uids}
        self._adopt(held)
        first, self._held_names = self._held_names is None, names
        if first or self._record_names() != self._withheld_reason:
            before = self._pools
            self._publish()
            if self._pools != before:
                self._changed.set()
        wanted = time_slices_by_uuid(held)
        present = wanted.keys() & self._default_slices.keys()
        slices = self._default_slices | {uuid: TimeSliceInterval(wanted[uuid]) for uuid in present}
        failed = await self._time_slicing.apply(slices)
        reasons = {
            preparation.claim.uid: failed[uuid]
            for preparation in (held if failed else ())
            for uuid in time_slices_by_uuid([preparation])
            if uuid in failed
        }
        if reasons:
            raise NotEnforcedError(reasons)
        if self._withheld_reason:
            raise PrepareError(self._withheld_reason)

    def _look(self) -> tuple[Gpu, ...]:
        """Return the GPUs, and search for the files of their container edits now, not while a claim waits."""
        mark = self._current_mark()
        gpus = self._inventory.read()
        for version in {gpu.driver_version for gpu in gpus}:
            self._edits.common(version)
        if self._mark is not None and mark != self._mark:
            self._time_slicing.forget()
        self._mark = mark
        return gpus

    def _current_mark(self) -> Hashable:
        return None if self._marked is None else self._marked.mark()

    async def _reread(self) -> None:
        async with self._one_reader:  # in order: the last reading counts
            self._take(await asyncio.to_thread(self._look))  # an inventory may block for seconds

    async def _reread_soon(self) -> None:
        """Read the GPUs again; raises PrepareError if that fails, or takes too long.

        Only the first call waits for a reading: pods must be able to end while the driver does not answer.
        """
        patience = 0.0 if self._rereading is not None else REFRESH_TIMEOUT
        if self._rereading is None:
            self._rereading = asyncio.create_task(self._reread())
        done, _ = await asyncio.wait({self._rereading}, timeout=patience)
        about = f"node {self._node}: the GPUs or their kernel driver have changed, and the GPUs cannot be read"
        if not done:
            raise PrepareError(f"{about}: no answer for {REFRESH_TIMEOUT:.0f} s or more; the kubelet retries")
        reading, self._rereading = self._rereading, None
        if (error := reading.exception()) is not None:
            raise PrepareError(f"{about}: {error}; the kubelet retries") from error

    def _take(self, gpus: Iterable[Gpu]) -> None:
        self._read = tuple(gpus)
        try:
            named = self._names.assign(self._read)
        except DeviceNamesError as error:
            self._degrade(error)
            return
        self.degraded_reason = ""
        self._look_for_files({gpu.driver_version for gpu in self._read})
        self._use_gpus(self._with_flaw(gpu) for gpu in named)
        self._known_devices |= {gpu.name for gpu in self._gpus.values() if not gpu.partitioning}
        self._publish()

    def _degrade(self, error: Exception) -> None:
        """Publish and prepare nothing until the next reading succeeds."""
        self.degraded_reason = (
            f"node {self._node}: no GPU is published or prepared, claims are only unprepared: {error}"
        )
        self._use_gpus(())
        self._publish()

    def _use_gpus(self, gpus: Iterable[Gpu]) -> None:
        self._named = tuple(gpus)
        self._gpus = {gpu.name: gpu for gpu in self._named}
        self._examined = tuple(filter(_has_files, self._gpus.values()))
        self._examined_flaws = [self._flaws.get(gpu.name, "") for gpu in self._examined]
        self._default_slices = {gpu.uuid: TimeSliceInterval.DEFAULT for gpu in self._named if gpu.uuid}

    def _publish(self) -> None:
        """Build the pool from the GPUs whose names will last."""
        lasting = list(self._gpus.values())
        self._withheld_reason = self._record_names()
        if self._withheld_reason:
            lasting = [gpu for gpu in lasting if self._names.is_recorded(gpu.name)]
        devices = build_gpu_devices(lasting, self._publication)
        self._pools = (Pool(name=self._node, devices=devices, taintable=bool(self._publication.taint_effect)),)

    def _record_names(self) -> str:
        """Record the names of GPUs, once it is known which names claims hold; return the reason of a failure."""
        if self._held_names is None or self.degraded_reason:
            return ""
        try:
            self._names.record(self._named, held=self._held_names)
        except OSError as error:
            return f"node {self._node}: the names of GPUs cannot be recorded: {error}; new GPUs are not published"
        return ""

    def _adopt(self, preparations: Iterable[PreparedClaim]) -> None:
        preparations = [
            preparation
            for preparation in preparations
            if not all(self._names.is_recorded(device.device) for device in preparation.devices)
        ]
        if not preparations:
            return
        with contextlib.suppress(DeviceNamesError):  # the next reading degrades the driver
            if self._names.adopt(cards_by_name(preparations)) and not self.degraded_reason:
                self._take(self._read)

    def _look_for_files(self, versions: Iterable[str]) -> None:
        self._common = {version: self._edits.common(version) for version in versions}

    def _flaw(self, gpu: Gpu) -> str:
        """Return which files containers would lack to use a GPU; empty for a GPU that they cannot use anyway."""
        return self._edits.flaw(gpu) if _has_files(gpu) else ""

    def _with_flaw(self, gpu: Gpu) -> Gpu:
        """Return a GPU with a fault if containers would lack files to use it."""
        flaw = self._flaw(gpu)
        if flaw and flaw != self._flaws.get(gpu.name):
            log.warning("node %s: device %s cannot be used: %s", self._node, gpu.name, flaw)
        self._flaws[gpu.name] = flaw
        return replace(gpu, faults=(*gpu.faults, GpuFault(reason=NO_DRIVER_FILES, message=flaw))) if flaw else gpu

    def _common_edits(self, gpus: Iterable[Gpu]) -> ContainerEdits:
        versions = sorted({gpu.driver_version for gpu in gpus})
        return self._common[versions[-1]] if versions else ContainerEdits()

    def _gpu(self, pool: str, device: str, where: str) -> Gpu:
        """Return the GPU with this name, if containers can use it. Raises PrepareError."""
        if pool != self._node:
            raise PrepareError(f"{where}: device {device} is in pool {pool}, but this is node {self._node}")
        if self.degraded_reason:
            raise PrepareError(f"{where}: {self.degraded_reason}")
        gpu = self._gpus.get(device)
        if gpu is None:
            raise PrepareError(
                f"{where}: device {device} is not on node {self._node} (present: {self._present_names}); "
                "if it does not come back, delete the claim or its pods, so that another device is allocated"
            )
        if gpu.partitioning:
            raise PrepareError(
                f"{where}: device {gpu.name} has been partitioned ({gpu.partitioning} is on) and cannot be used as "
                f"a whole; switch {gpu.partitioning} off, or delete the claim"
            )
        if (fault := gpu.unusable) is not None:
            raise PrepareError(
                f"{where}: device {gpu.name} cannot be used: {fault.message or fault.reason}; "
                f"the kubelet retries. If it does not become usable, {_WAY_OUT}"
            )
        return gpu

    def _held_gpu(self, device: PreparedDevice, where: str) -> Gpu:
        """Return the GPU of a prepared device as it is now. Raises PrepareError."""
        if self.degraded_reason:
            raise PrepareError(f"{where}: {self.degraded_reason}")
        card = held_card(device)
        if not card.known:
            raise PrepareError(
                f"{where}: device {device.device} was prepared by an earlier build that did not record of which GPU; "
                f"{_WAY_OUT}"
            )
        if device.pool == self._node and device.device not in self._gpus:
            raise PrepareError(
                f"{where}: device {device.device} is not on node {self._node}: it was prepared with {card} "
                f"(present: {self._present_names}); if that GPU does not come back, {_WAY_OUT}"
            )
        gpu = self._gpu(device.pool, device.device, where)
        if not card.is_same(card_of(gpu)):
            raise PrepareError(
                f"{where}: device {device.device} was prepared with {card}, but is {card_of(gpu)} now; {_WAY_OUT}"
            )
        return gpu

    def _verify_free(self, gpu: Gpu, others: Iterable[PreparedClaim], where: str) -> None:
        """Raise DevicesInUseError if a claim holds the GPU by another name, as an earlier build has named it."""
        card = card_of(gpu)
        for preparation in others:
            for device in preparation.devices:
                if device.device != gpu.name and not device.admin and is_card(device, card):
                    raise DevicesInUseError(
                        f"{where}: device {gpu.name} is {held_card(device)}, which {preparation.claim} holds as "
                        f"{device.device}; "
                        "the pod starts when the pods of the other claim on this node have ended"
                    )

    def _tell_faults(self, claim: Uid, gpu: Gpu, where: str) -> None:
        """Log once that a claim gets a faulty GPU."""
        faults = (claim, gpu.name, _describe_faults(gpu))
        if gpu.faults and faults not in self._told:
            self._told.add(faults)
            log.warning("%s: device %s is unhealthy, its pod starts anyway: %s", where, gpu.name, faults[-1])

    @property
    def _present_names(self) -> str:
        names = list(self._gpus)
        return ", ".join(names[:_MAX_NAMES_SHOWN]) + (", …" if len(names) > _MAX_NAMES_SHOWN else "") or "none"

    def _granted(
        self, gpu: Gpu, result: DeviceRequestAllocationResult, config: "GpuConfig | None", where: str
    ) -> GrantedConfig:
        interval = TimeSliceInterval.DEFAULT if config is None else config.sharing.time_slicing_config.interval
        if interval is not TimeSliceInterval.DEFAULT and (reason := self._time_slicing.unavailable_reason):
            raise PrepareError(
                f"{where}: GpuConfig.sharing.timeSlicingConfig.interval: {interval} cannot be set: {reason}"
            )
        return GrantedConfig(
            time_slice=interval,
            memory_limit=_memory_limit(gpu, result, config, where),
            core=int(parse(core)) if (core := _share(result, "core")) else 0,
        )

    def _decoded(self, parameters: OpaqueParameters, claim: str) -> "GpuConfig":
        from dra.api.parameters.gpu import GpuConfig  # noqa: PLC0415 - with pydantic, 13 MiB, once a claim has any
        from dra.api.parameters.opaque import MalformedParametersError, decode_parameters  # noqa: PLC0415

        try:
            return decode_parameters(parameters.parameters, GpuConfig)
        except MalformedParametersError as error:
            names = ", ".join(parameters.requests)
            of = f"request{'s' if len(parameters.requests) > 1 else ''} {names}" if names else "all requests"
            raise PrepareError(f"{claim}: {of}: {error}") from error


def _has_files(gpu: Gpu) -> bool:
    """Report whether a GPU needs files on the node: one that is lost or partitioned cannot be used anyway."""
    return not gpu.partitioning and all(fault.reason != GPU_LOST for fault in gpu.faults)


def _memory_limit(gpu: Gpu, result: DeviceRequestAllocationResult, config: "GpuConfig | None", where: str) -> int:
    """Return the memory limit in bytes that containers see: the requested one, or their share; 0 means no limit.

    Raises PrepareError if the requested limit exceeds the share or the GPU's memory.
    """
    share = _share(result, "memory")
    most = int(parse(share)) if share else gpu.memory
    if config is None or config.sharing.memory is None:
        return most if share else 0
    limit = int(parse(config.sharing.memory.limit))
    if most and limit > most:
        what = f"its share of {gpu.name}" if share else gpu.name
        raise PrepareError(
            f"{where}: GpuConfig.sharing.memory.limit: {config.sharing.memory.limit} exceeds {what} "
            f"({most} bytes); request less"
        )
    return limit


def _share(result: DeviceRequestAllocationResult, capacity: str) -> str | None:
    """Return the part of a capacity that a share consumes, as a quantity; None unless the device is shared."""
    return (result.consumed_capacity or {}).get(capacity) if result.share_id else None


def _describe_faults(gpu: Gpu) -> str:
    """Return a text with the faults of a GPU."""
    texts = (f"{f.reason}{f' {f.value}' if f.value else ''}{f': {f.message}' if f.message else ''}" for f in gpu.faults)
    return "; ".join(texts)[:1024]


def _device_health(gpu: Gpu, node: str) -> DeviceHealthState:
    if gpu.faults:
        return DeviceHealthState(pool=node, device=gpu.name, healthy=False, message=_describe_faults(gpu))
    if not gpu.monitored:
        return DeviceHealthState(
            pool=node, device=gpu.name, healthy=None, message="faults of this GPU are not detected"
        )
    return DeviceHealthState(pool=node, device=gpu.name, healthy=True)


async def _merged(inventory: AsyncIterator[None], changed: asyncio.Event) -> AsyncGenerator[bool, None]:
    """Yield True for each change of an inventory, and False whenever an event is set; ends with the inventory."""
    waiting: dict[asyncio.Future[Any], bool] = {}
    try:
        while True:
            if True not in waiting.values():
                waiting[asyncio.ensure_future(anext(inventory, _END))] = True
            if False not in waiting.values():
                waiting[asyncio.ensure_future(changed.wait())] = False
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                of_inventory = waiting.pop(future)
                if future.result() is _END:
                    return
                if not of_inventory:
                    changed.clear()
                yield of_inventory
    finally:
        for future in waiting:
            future.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
