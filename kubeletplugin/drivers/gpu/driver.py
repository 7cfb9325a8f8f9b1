"""The driver ``gpu.reserve.dra``: publishes the GPUs of an inventory and prepares claims for them.

A GPU is allocated to one claim as a whole, for all containers of the claim; or, with shares enabled, to several claims
that each requested a part of its memory and compute. Processes on a GPU are not isolated from each other: they compute
in time slices (`dra.api.parameters.gpu`). The time slice is a property of the GPU, so claims that share a GPU must
agree on it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from dra.api.parameters.gpu import GpuConfig, TimeSliceInterval
from dra.api.parameters.opaque import MalformedParametersError, decode_parameters, last_applicable
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.quantities import parse
from kubeletplugin.contract import (
    DeviceHealthState,
    DeviceReport,
    NotEnforcedError,
    OpaqueParameters,
    Pool,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.drivers.gpu.container_edits import GpuContainerEdits, GrantedConfig
from kubeletplugin.drivers.gpu.device_report import device_report
from kubeletplugin.drivers.gpu.devices import DRIVER_NAME, GpuPublishOptions, build_gpu_devices
from kubeletplugin.drivers.gpu.time_slices import TimeSlicingManager
from kubeletplugin.inventory.gpus import Gpu, GpuInventory
from kubeletplugin.inventory.nvml import NvmlUnavailableError

log = logging.getLogger(__name__)

RETRY_INTERVAL: Final = 10.0
"""Seconds between two attempts to read an inventory that was unavailable at the start."""

_VANISHED: Final = "has vanished from the node, or is partitioned (MIG)"
_MAX_NAMES_SHOWN: Final = 8
"""Maximum number of devices that a message lists."""


class GpuDriver:
    """The DRA driver for the GPUs of this node, in a pool with the node's name."""

    def __init__(
        self,
        inventory: GpuInventory,
        *,
        node: str,
        edits: GpuContainerEdits,
        time_slicing: TimeSlicingManager,
        publication: GpuPublishOptions = GpuPublishOptions(),  # noqa: B008 - frozen
        served_before: bool = False,
    ) -> None:
        """Read the inventory; raises the inventory's errors, NvmlUnavailableError only without `served_before`.

        `served_before` means that claims may have to be unprepared, whose pods could not end without the driver. So the
        driver then starts without NVML, and publishes no GPU.
        """
        self._inventory = inventory
        self._node = node
        self._edits = edits
        self._time_slicing = time_slicing
        self._publication = publication
        self._gpus: dict[str, Gpu] = {}
        self._pools: tuple[Pool, ...] = ()
        self._known_devices: frozenset[str] = frozenset()
        """Names of devices that this process has published, or that claims hold."""
        self.degraded_reason = ""
        try:
            self._take(self._look())
        except NvmlUnavailableError as error:
            if not served_before:
                raise
            self.degraded_reason = f"node {node}: no GPU is published or prepared, claims are only unprepared: {error}"
            self._take(())

    @property
    def name(self) -> str:
        """The name of the driver, ``gpu.reserve.dra``."""
        return DRIVER_NAME

    def pools(self) -> tuple[Pool, ...]:
        """Return the pool of this node's GPUs; a pool without GPUs removes the slices of an earlier run."""
        return self._pools

    def health(self) -> tuple[DeviceHealthState, ...]:
        """Return the health of the GPUs, including published or claimed GPUs that have vanished."""
        usable = [gpu for gpu in self._gpus.values() if not gpu.mig_enabled]
        gone = sorted(self._known_devices - {gpu.name for gpu in usable})
        known, text = (None, self.degraded_reason) if self.degraded_reason else (False, _VANISHED)
        return (
            *(_device_health(gpu, self._node) for gpu in usable),
            *(DeviceHealthState(pool=self._node, device=name, healthy=known, message=text) for name in gone),
        )

    def device_report(self, prepared: Iterable[PreparedClaim]) -> DeviceReport | None:
        """Return the GPUs and the claims on them as Koordinator's Device describes them; None while degraded."""
        return None if self.degraded_reason else device_report(self._gpus.values(), prepared)

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever the inventory has changed."""
        while self.degraded_reason:
            await asyncio.sleep(RETRY_INTERVAL)
            with contextlib.suppress(NvmlUnavailableError):
                self._take(await asyncio.to_thread(self._look))
                self.degraded_reason = ""
                yield
        async for _ in self._inventory.changes(tuple(self._gpus.values())):
            self._take(await asyncio.to_thread(self._look))  # NVML may block for seconds
            yield

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return the prepared claim with its container edits. Raises PrepareError."""
        claim = f"claim {'/'.join(request.claim.key)}"
        configs = [(each.requests, self._decoded(each, claim)) for each in request.configuration]
        slices = _time_slices(others)
        prepared = []
        wanted: dict[str, str] = {}
        for result in request.results:
            where = f"{claim}: request {result.request}"
            gpu = self._gpu(result.pool, result.device, where)
            granted = self._granted(gpu, result, last_applicable(configs, result.request) or GpuConfig(), where)
            if granted.time_slice is not TimeSliceInterval.DEFAULT:
                set_before = slices.get(gpu.name) or wanted.get(gpu.name, granted.time_slice)
                if granted.time_slice != set_before:
                    raise PrepareError(
                        f"{where}: GpuConfig.sharing.timeSlicingConfig.interval: {granted.time_slice} conflicts "
                        f"with {set_before}, which another claim has set for {gpu.name}; "
                        f"request {set_before} or Default"
                    )
                if gpu.uuid and not result.admin_access:
                    wanted[gpu.name] = granted.time_slice
            prepared.append(
                PreparedDevice(
                    requests=(result.request.partition("/")[0],),
                    pool=result.pool,
                    device=result.device,
                    share=result.share_id or "",
                    admin=bool(result.admin_access),
                    edits=self._edits.device(gpu, granted),
                )
            )
        versions = sorted({self._gpus[each.device].driver_version for each in prepared})
        return PreparedClaim(
            claim=request.claim,
            driver=DRIVER_NAME,
            devices=tuple(prepared),
            common=self._edits.common(versions[-1] if versions else ""),
            state={"timeSlices": wanted} if wanted else {},
        )

    def recheck(self, preparation: PreparedClaim) -> None:
        """Raise PrepareError if a GPU of a prepared claim has vanished; a faulty GPU is only logged."""
        if self.degraded_reason:
            return  # the GPUs of the node are unknown: the claim keeps its devices
        for each in preparation.devices:
            self._gpu(each.pool, each.device, str(preparation.claim))

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Set the time slices that claims request, and reset those of other GPUs. Raises NotEnforcedError."""
        held = tuple(preparations)
        self._known_devices |= {device.device for each in held for device in each.devices if device.pool == self._node}
        wanted = _time_slices(held)
        uuids = {gpu.name: gpu.uuid for gpu in self._gpus.values() if gpu.uuid}
        failed = await self._time_slicing.apply(
            {uuid: TimeSliceInterval(wanted.get(name, TimeSliceInterval.DEFAULT)) for name, uuid in uuids.items()}
        )
        lost = {name: failed[uuid] for name, uuid in uuids.items() if uuid in failed}
        reasons = {each.claim.uid: lost[name] for each in held for name in _time_slices([each]) if name in lost}
        if reasons:
            raise NotEnforcedError(reasons)

    def _look(self) -> tuple[Gpu, ...]:
        """Return the GPUs, and search for the files of their container edits now, not while a claim waits."""
        gpus = self._inventory.read()
        for version in {gpu.driver_version for gpu in gpus}:
            self._edits.common(version)
        return gpus

    def _take(self, gpus: Iterable[Gpu]) -> None:
        self._gpus = {gpu.name: gpu for gpu in gpus}
        self._known_devices |= {gpu.name for gpu in self._gpus.values() if not gpu.mig_enabled}
        devices = build_gpu_devices(self._gpus.values(), self._publication)
        self._pools = (Pool(name=self._node, devices=devices, taintable=bool(self._publication.taint_effect)),)

    def _gpu(self, pool: str, device: str, where: str) -> Gpu:
        if pool != self._node:
            raise PrepareError(f"{where}: device {device} is in pool {pool}, but this is node {self._node}")
        gpu = self._gpus.get(device)
        if gpu is None:
            names = [each.name for each in self._gpus.values()]
            listed = (
                ", ".join(names[:_MAX_NAMES_SHOWN]) + (", …" if len(names) > _MAX_NAMES_SHOWN else "")
                if names
                else "none"
            )
            raise PrepareError(
                f"{where}: device {device} is not on node {self._node} (present: {listed}); "
                "if it does not come back, delete the claim or its pods, so that another device is allocated"
            )
        if gpu.mig_enabled:
            raise PrepareError(
                f"{where}: device {gpu.name} has been partitioned (MIG mode is on) and cannot be used as a whole; "
                f"switch MIG mode off, or delete the claim"
            )
        if gpu.faults:
            log.warning("%s: device %s is unhealthy, its pod starts anyway: %s", where, device, _describe_faults(gpu))
        return gpu

    def _granted(self, gpu: Gpu, result: DeviceRequestAllocationResult, config: GpuConfig, where: str) -> GrantedConfig:
        interval = config.sharing.time_slicing_config.interval
        if interval is not TimeSliceInterval.DEFAULT and (reason := self._time_slicing.unavailable_reason):
            raise PrepareError(
                f"{where}: GpuConfig.sharing.timeSlicingConfig.interval: {interval} cannot be set: {reason}"
            )
        return GrantedConfig(
            time_slice=interval,
            memory_limit=_memory_limit(gpu, result, config, where),
            core=int(parse(core)) if (core := _share(result, "core")) else 0,
        )

    def _decoded(self, parameters: OpaqueParameters, claim: str) -> GpuConfig:
        try:
            return decode_parameters(parameters.parameters, GpuConfig)
        except MalformedParametersError as error:
            names = ", ".join(parameters.requests)
            of = f"request{'s' if len(parameters.requests) > 1 else ''} {names}" if names else "all requests"
            raise PrepareError(f"{claim}: {of}: {error}") from error


def _memory_limit(gpu: Gpu, result: DeviceRequestAllocationResult, config: GpuConfig, where: str) -> int:
    """Return the memory limit in bytes that containers see: the requested one, or their share; 0 means no limit.

    Raises PrepareError if the requested limit exceeds the share or the GPU's memory.
    """
    share = _share(result, "memory")
    most = int(parse(share)) if share else gpu.memory
    if config.sharing.memory is None:
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


def _time_slices(preparations: Iterable[PreparedClaim]) -> Mapping[str, str]:
    found: dict[str, Any] = {}
    for each in preparations:
        if each.driver == DRIVER_NAME:
            found |= each.state.get("timeSlices", {})
    return found


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
