"""NodePrepareResources and NodeUnprepareResources of one driver: batches of claims go through steps under a lock.

The steps are data (`CallSteps`); a crash behind any of them is repaired by `ClaimPreparer.recover`, or by the kubelet's
next call.

* Claims of one call share its costs: one round of reads, one checkpoint, one `enforce`; so do calls that wait at the
  same time (`kubeletplugin.call_batcher`). A failure of one claim does not affect the others; a failure of a shared
  step fails all claims.
* Nothing is cancelled between lock and answer: when a caller gives up, its call runs to the end. The steps in worker
  threads could not be stopped, and the lock must not be released before they end.
"""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from dra.kube.clock import SYSTEM, Clock
from dra.model.meta import Uid
from kubeletplugin.call_batcher import CallBatcher
from kubeletplugin.cdi import CdiSpecDirectory, is_safe_in_file_name
from kubeletplugin.checkpoint import Checkpoint, CheckpointError
from kubeletplugin.claim_specs import ClaimSpecs
from kubeletplugin.claim_store import ClaimStore
from kubeletplugin.contract import ClaimIdentity, DevicesInUseError, PreparedClaim, PrepareError, PrepareRequest
from kubeletplugin.directory_lock import DirectoryLock, LockError
from kubeletplugin.driver_calls import DriverCalls, PrepareDriver
from kubeletplugin.driver_node import DriverNode
from kubeletplugin.inspection_steps import RECONCILE, RECOVER, InspectionBatch
from kubeletplugin.prepare_steps import PREPARE, PrepareBatch
from kubeletplugin.refused_claims import RefusedClaim, RefusedClaims
from kubeletplugin.steps import BatchT, Step, run_steps
from kubeletplugin.unprepare_steps import UNPREPARE, UnprepareBatch
from kubeletplugin.worker_thread import WorkerThread

LOCK_TIMEOUT: Final = 15.0
"""Seconds to wait for the lock, until the other instance of a rolling update finishes its call.

Together with the reads, this is below the kubelet's timeout of 45 s.
"""

HANDOVER_TIMEOUT: Final = 5.0
"""Seconds that a claim waits for devices that another claim still holds.

A pod that is deleted without a grace period is gone from the API while its containers end: the next claim is prepared
before the last one is unprepared, usually within a second or two. The kubelet would retry only after ten seconds.
Together with the lock and the reads, this is below the kubelet's timeout of 45 s.
"""

_PARAMETER_MODELS: Final = "dra.api.parameters.opaque"
"""The module with which drivers decode parameters. With pydantic it has 8 MiB and takes half a second, so it is loaded
for the first claim with parameters, and before the lock is taken, for which other claims wait."""


class ClaimSource(Protocol):
    """The source from which claims are read; `kubeletplugin.claims.ClaimReader` implements it."""

    async def read(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareRequest | PrepareError]:
        """Return the request of each claim, or the reason why the claim is refused."""
        ...


class CallSteps(NamedTuple):
    """The steps of each call."""

    prepare: tuple[Step[PrepareBatch], ...] = PREPARE
    unprepare: tuple[Step[UnprepareBatch], ...] = UNPREPARE
    recover: tuple[Step[InspectionBatch], ...] = RECOVER
    reconcile: tuple[Step[InspectionBatch], ...] = RECONCILE


class ClaimPreparer:
    """The preparer of one driver's claims on this node."""

    def __init__(  # noqa: PLR0913 - keyword-only; what it is put together from
        self,
        driver: PrepareDriver,
        *,
        claims: ClaimSource,
        checkpoint: Checkpoint[PreparedClaim],
        cdi: CdiSpecDirectory,
        lock: DirectoryLock,
        steps: CallSteps = CallSteps(),  # noqa: B008 - a tuple
        orphan_warning: Callable[[Uid], str] = lambda _: "",
        clock: Clock = SYSTEM,
    ) -> None:
        """Create a preparer without reading anything.

        `orphan_warning` returns the warning about a claim that the kubelet seems to have forgotten, or an empty string.
        """
        self._claims = claims
        self._lock = lock
        self._steps = steps
        self._store = ClaimStore(checkpoint, cdi=cdi, folder=lock.folder)
        self._refused = RefusedClaims(clock)
        self._node = DriverNode(
            driver=DriverCalls(driver),
            store=self._store,
            specs=ClaimSpecs(cdi, driver=driver.name),
            refused=self._refused,
            orphan_warning=orphan_warning,
        )
        self._worker = WorkerThread(name=f"files of {driver.name}")
        self._running_tasks: set[asyncio.Task[None]] = set()
        self._prepare_batcher = CallBatcher(self._prepare, exclusively=self._locked)
        self._unprepare_batcher = CallBatcher(self._unprepare, exclusively=self._locked)

    @property
    def prepared_claims(self) -> tuple[PreparedClaim, ...]:
        """The prepared claims in memory; the checkpoint is not read."""
        return self._store.claims

    @property
    def refused_claims(self) -> tuple[RefusedClaim, ...]:
        """The claims that the driver has refused for longer than a handover of devices takes."""
        return self._refused.lasting(HANDOVER_TIMEOUT)

    async def prepare(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PreparedClaim | PrepareError]:
        """Prepare claims and return the answer for each; `kubeletplugin.cdi.device_ids` returns the CDI device ids."""
        answers: dict[Uid, PreparedClaim | PrepareError] = {}
        pending: dict[Uid, ClaimIdentity] = {}
        for claim in claims:
            if is_safe_in_file_name(claim.uid):
                pending[claim.uid] = claim
            else:
                answers[claim.uid] = PrepareError(f"{claim}: the uid cannot be part of a file name")
        deadline = asyncio.get_running_loop().time() + HANDOVER_TIMEOUT
        while pending:
            released = self._store.released
            answers |= await self._read_and_prepare(pending)
            pending = {uid: claim for uid, claim in pending.items() if isinstance(answers[uid], DevicesInUseError)}
            if pending and not await _wait_until(released, until=deadline):
                break
        return answers

    async def _read_and_prepare(
        self, pending: Mapping[Uid, ClaimIdentity]
    ) -> Mapping[Uid, PreparedClaim | PrepareError]:
        answers: dict[Uid, PreparedClaim | PrepareError] = {}
        requests: dict[Uid, PrepareRequest] = {}
        for uid, read in (await self._claims.read(pending.values())).items():
            if isinstance(read, PrepareError):
                answers[uid] = read
            else:
                requests[uid] = read
        if _PARAMETER_MODELS not in sys.modules and any(request.configuration for request in requests.values()):
            await asyncio.to_thread(importlib.import_module, _PARAMETER_MODELS)
        try:
            if requests:
                answers |= await self._prepare_batcher.submit(requests)
        except (LockError, CheckpointError) as error:
            answers |= _refuse_all((request.claim for request in requests.values()), error)
        return answers

    async def unprepare(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareError | None]:
        """Unprepare claims and return None, or the reason of a failure, for each.

        Unpreparing a claim that was never prepared succeeds.
        """
        answers: dict[Uid, PrepareError | None] = {}
        pending: dict[Uid, ClaimIdentity] = {}
        for claim in claims:
            answers[claim.uid] = None
            self._refused.forget(claim.uid)
            if is_safe_in_file_name(claim.uid):  # a claim with another uid was never prepared
                pending[claim.uid] = claim
        try:
            if pending:
                answers |= await self._unprepare_batcher.submit(pending)
        except (LockError, CheckpointError) as error:
            answers |= _refuse_all(pending.values(), error)
        return answers

    async def recover(self) -> None:
        """Repair the node after a crash or a reboot: write missing CDI specs, remove orphaned ones, and enforce.

        Raises CheckpointError, and then has changed nothing; LockError.
        """
        await self._inspect(self._steps.recover)

    async def reconcile(self) -> None:
        """Reconcile the node and the CDI specs with the prepared claims; to be called every few seconds.

        Raises PrepareError, CheckpointError or LockError.
        """
        await self._inspect(self._steps.reconcile)

    async def wait_idle(self) -> None:
        """Wait for running calls, those with cancelled callers included."""
        await asyncio.gather(self._prepare_batcher.wait_idle(), self._unprepare_batcher.wait_idle())
        if self._running_tasks:
            await asyncio.wait(self._running_tasks)

    async def _prepare(self, requests: Mapping[Uid, PrepareRequest]) -> dict[Uid, PreparedClaim | PrepareError]:
        batch = PrepareBatch(node=self._node, prepared=await self._store.load(), requests=requests)
        await self._take_through(self._steps.prepare, batch)
        return batch.answers

    async def _unprepare(self, claims: Mapping[Uid, ClaimIdentity]) -> dict[Uid, PrepareError | None]:
        prepared = await self._store.load()
        batch = UnprepareBatch(node=self._node, prepared=prepared, claims=claims, answers=dict.fromkeys(claims))
        await self._take_through(self._steps.unprepare, batch)
        return batch.answers

    async def _take_through(self, steps: Sequence[Step[BatchT]], batch: BatchT) -> None:
        try:
            await run_steps(steps, batch, worker=self._worker)
        except BaseException:  # no step expects it: no thread can be started, for example
            self._store.distrust_memory()
            raise

    async def _inspect(self, steps: tuple[Step[InspectionBatch], ...]) -> None:
        """Wait for the lock, then take all prepared claims through the steps, even if the caller is cancelled."""
        await self._lock.acquire(within=LOCK_TIMEOUT)
        task = asyncio.create_task(self._inspect_and_unlock(steps))
        self._running_tasks.add(task)
        task.add_done_callback(self._on_done)
        await asyncio.shield(task)

    async def _inspect_and_unlock(self, steps: tuple[Step[InspectionBatch], ...]) -> None:
        try:
            batch = InspectionBatch(node=self._node, prepared=await self._store.load())
            await self._take_through(steps, batch)
        finally:
            self._lock.release()

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the lock of the driver's directory; raises LockError."""
        await self._lock.acquire(within=LOCK_TIMEOUT)
        try:
            yield
        finally:
            self._lock.release()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._running_tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved: the caller got it, or was cancelled


async def _wait_until(event: asyncio.Event, *, until: float) -> bool:
    """Wait for an event until a time of the loop's clock; return whether the event was set."""
    try:
        async with asyncio.timeout_at(until):
            return await event.wait()
    except TimeoutError:
        return False


def _refuse_all(claims: Iterable[ClaimIdentity], error: LockError | CheckpointError) -> dict[Uid, PrepareError]:
    retry = "; the kubelet retries" if isinstance(error, LockError) else ""
    return {claim.uid: PrepareError(f"{claim}: {error}{retry}") for claim in claims}
