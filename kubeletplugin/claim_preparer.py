"""NodePrepareResources and NodeUnprepareResources of one driver, in an order of steps that survives crashes.

Prepare: read → hold → checkpoint → enforce → CDI spec → answer. Unprepare: CDI spec → checkpoint → release → enforce →
answer. Each step leaves a state from which `ClaimPreparer.recover`, or the kubelet's next call, continues; the table is
in docs/design/kubelet-plugin.md.

* Claims of one call share its costs: one round of reads, one checkpoint, one `enforce`; so do calls that wait at the
  same time (`kubeletplugin.call_batcher`). A failure of one claim does not affect the others; a failure of a shared
  step fails all claims.
* A prepared claim gets the same devices again until it is unprepared; its CDI spec is rewritten each time.
* What a CDI spec names may be gone or be another device, above all after a reboot. So prepared claims are rechecked by
  the driver at each prepare, at the start and at each reconciliation: their edits are made anew from what is on the
  node, or the CDI spec is removed, and the claim is refused until its devices are back.
* Nothing is cancelled between lock and answer: when a caller gives up, its call runs to the end. The steps in worker
  threads could not be stopped, and the lock must not be released before they end.
* In doubt a device stays held: a claim that is in the checkpoint stays there when a later step fails. The kubelet
  retries, or unprepares the claim when the pod is deleted.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from dra.kube.clock import SYSTEM, Clock
from dra.model.meta import Uid
from kubeletplugin import release_journal
from kubeletplugin.call_batcher import CallBatcher
from kubeletplugin.cdi import CdiSpecDirectory, is_safe_in_file_name
from kubeletplugin.checkpoint import Checkpoint, CheckpointError
from kubeletplugin.claim_specs import ClaimSpecs
from kubeletplugin.contract import (
    ClaimIdentity,
    DevicesInUseError,
    NotEnforcedError,
    PreparedClaim,
    PrepareError,
    PrepareRequest,
    Recheckable,
    Refreshable,
)
from kubeletplugin.directory_lock import DirectoryLock, LockError
from kubeletplugin.prepare_steps import PrepareStep, StepObserver, ignore_step
from kubeletplugin.prepared_claims import DoubleAllocationError, PreparedClaims
from kubeletplugin.refused_claims import RefusedClaim, RefusedClaims

log = logging.getLogger(__name__)

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


class ClaimSource(Protocol):
    """The source from which claims are read; `kubeletplugin.claims.ClaimReader` implements it."""

    async def read(self, claims: Iterable[ClaimIdentity]) -> Mapping[Uid, PrepareRequest | PrepareError]:
        """Return the request of each claim, or the reason why the claim is refused."""
        ...


class PrepareDriver(Protocol):
    """The part of `kubeletplugin.contract.Driver` that prepares and enforces claims."""

    @property
    def name(self) -> str:
        """The name of the driver."""
        ...

    def prepare(self, request: PrepareRequest, others: Iterable[PreparedClaim]) -> PreparedClaim:
        """Return the devices and container edits of a claim; raises PrepareError."""
        ...

    async def enforce(self, preparations: Iterable[PreparedClaim]) -> None:
        """Bring the node to the state that all these prepared claims need; raises PrepareError."""
        ...


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
        observe_step: StepObserver = ignore_step,
        orphan_warning: Callable[[Uid], str] = lambda _: "",
        clock: Clock = SYSTEM,
    ) -> None:
        """Create a preparer without reading anything.

        `orphan_warning` returns the warning about a claim that the kubelet seems to have forgotten, or an empty string.
        """
        self._driver = driver
        self._claims = claims
        self._checkpoint = checkpoint
        self._cdi = cdi
        self._specs = ClaimSpecs(cdi, driver=driver.name)
        self._lock = lock
        self._observe_step = observe_step
        self._orphan_warning = orphan_warning
        self._prepared: PreparedClaims | None = None
        self._refused = RefusedClaims(clock)
        self._running_tasks: set[asyncio.Task[None]] = set()
        self._released = asyncio.Event()
        """Set when devices are released, and then replaced by a new event."""
        self._prepare_batcher = CallBatcher(self._prepare, exclusively=self._locked)
        self._unprepare_batcher = CallBatcher(self._unprepare, exclusively=self._locked)

    @property
    def prepared_claims(self) -> tuple[PreparedClaim, ...]:
        """The prepared claims in memory; the checkpoint is not read."""
        return self._prepared.all if self._prepared is not None else ()

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
            released = self._released
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
        self._observe_step(PrepareStep.READ)
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
        await self._run_locked(self._recover)

    async def reconcile(self) -> None:
        """Reconcile the node and the CDI specs with the prepared claims; to be called every few seconds.

        Raises PrepareError, CheckpointError or LockError.
        """
        await self._run_locked(self._reconcile)

    async def wait_idle(self) -> None:
        """Wait for running calls, those with cancelled callers included."""
        await asyncio.gather(self._prepare_batcher.wait_idle(), self._unprepare_batcher.wait_idle())
        if self._running_tasks:
            await asyncio.wait(self._running_tasks)

    async def _prepare(self, requests: Mapping[Uid, PrepareRequest]) -> dict[Uid, PreparedClaim | PrepareError]:
        prepared_claims = await self._load_prepared_claims()
        try:
            await self._refresh_driver()
        except PrepareError as unknown:
            return {uid: PrepareError(f"{request.claim}: {unknown}") for uid, request in requests.items()}
        answers: dict[Uid, PreparedClaim | PrepareError] = {}
        new: list[PreparedClaim] = []
        unusable: list[PreparedClaim] = []
        before = prepared_claims.all
        for request in requests.values():
            known = prepared_claims.get(request.claim.uid)
            try:
                if known is None:
                    prepared = self._prepare_one(request, prepared_claims)
                    new.append(prepared)
                else:
                    _verify_allocation_unchanged(known, request)
                    unusable.append(known)
                    prepared = self._recheck(known, prepared_claims)
                    unusable.remove(known)
                answers[request.claim.uid] = prepared
                self._refused.forget(request.claim.uid)
            except PrepareError as refused:
                answers[request.claim.uid] = refused
                self._refused.record(request, refused)
        self._observe_step(PrepareStep.HELD)
        if prepared_claims.all != before:
            try:
                await asyncio.to_thread(self._checkpoint.write, prepared_claims.all)
            except CheckpointError as error:
                for prepared in new:
                    prepared_claims.release(prepared.claim.uid)
                    answers[prepared.claim.uid] = PrepareError(f"{prepared.claim}: not prepared: {error}")
        await asyncio.to_thread(
            self._specs.withdraw, {preparation.claim: answers[preparation.claim.uid] for preparation in unusable}
        )
        able = [answer for answer in answers.values() if isinstance(answer, PreparedClaim)]
        return answers | await self._enforce_and_write_specs(able, prepared_claims)

    def _prepare_one(self, request: PrepareRequest, prepared_claims: PreparedClaims) -> PreparedClaim:
        """Hold the devices of a claim and return the prepared claim; raises PrepareError, and then holds nothing."""
        claim, others = request.claim, prepared_claims.all
        conflict = prepared_claims.allocate(claim, request.items)
        if conflict is not None:
            until = self._orphan_warning(conflict.holder.uid)
            until = until or "the pod starts when the pods of the other claim on this node have ended"
            raise DevicesInUseError(f"{claim}: {conflict}; {until}")
        try:
            with self._errors_refused(claim):
                prepared = _checkpoint_round_trip(self._driver.prepare(request, others))
                _verify_complete(prepared, request)
        except PrepareError:
            prepared_claims.release(claim.uid)
            raise
        prepared_claims.add(prepared)
        return prepared

    def _recheck(self, known: PreparedClaim, prepared_claims: PreparedClaims) -> PreparedClaim:
        """Return a prepared claim as the driver makes it now; raises PrepareError, and then nothing has changed."""
        if not isinstance(self._driver, Recheckable):
            return known
        with self._errors_refused(known.claim):
            now = self._driver.recheck(known)
            if now == known:  # nearly always, and a GPU's edits have hundreds of mounts
                return known
            now = _checkpoint_round_trip(now)
            if now.items != known.items or now.claim != known.claim:
                raise ValueError(f"prepared {known.items}, rechecked {now.items}")
        prepared_claims.add(now)
        return now

    def _recheck_all(
        self, prepared_claims: PreparedClaims
    ) -> tuple[list[PreparedClaim], dict[ClaimIdentity, PrepareError]]:
        """Return the claims that containers can use, as they are now, and the reasons why they cannot use others."""
        usable, refused = [], {}
        for known in prepared_claims.all:
            try:
                usable.append(self._recheck(known, prepared_claims))
            except PrepareError as error:
                refused[known.claim] = error
        return usable, refused

    async def _refresh_and_recheck(
        self, prepared_claims: PreparedClaims
    ) -> tuple[list[PreparedClaim], dict[ClaimIdentity, PrepareError]]:
        """Recheck all claims after another look at the node, and record the result."""
        before = prepared_claims.all
        try:
            await self._refresh_driver()
        except PrepareError as unknown:
            return [], dict.fromkeys((preparation.claim for preparation in before), unknown)
        result = self._recheck_all(prepared_claims)
        if prepared_claims.all != before:
            try:
                await asyncio.to_thread(self._checkpoint.write, prepared_claims.all)
            except CheckpointError as error:  # the next recheck finds the same
                log.warning("driver %s: changed container edits are not recorded: %s", self._driver.name, error)
        return result

    async def _refresh_driver(self) -> None:
        """Let the driver look at its devices again; raises PrepareError if it cannot tell what they are."""
        if isinstance(self._driver, Refreshable):
            await self._driver.refresh()

    @contextlib.contextmanager
    def _errors_refused(self, claim: ClaimIdentity) -> Iterator[None]:
        """Raise a driver's unexpected error as PrepareError."""
        try:
            yield
        except PrepareError:
            raise
        except Exception as error:
            log.exception("%s: driver %s failed", claim, self._driver.name)
            raise PrepareError(
                f"{claim}: driver {self._driver.name} failed: {error!r}; see the plugin's log"
            ) from error

    async def _enforce_and_write_specs(
        self, prepared: Sequence[PreparedClaim], prepared_claims: PreparedClaims
    ) -> dict[Uid, PreparedClaim | PrepareError]:
        """Enforce and write the CDI specs; after a failure the claims' devices stay held."""
        if not prepared:
            return {}
        reasons: Mapping[Uid, str] = {}
        try:
            await self._enforce(prepared_claims)
        except NotEnforcedError as some:
            reasons = some.reasons
        except PrepareError as refused:
            reasons = {preparation.claim.uid: str(refused) for preparation in prepared}
        able = [preparation for preparation in prepared if preparation.claim.uid not in reasons]
        unable = [preparation.claim for preparation in prepared if preparation.claim.uid in reasons]
        written = await asyncio.to_thread(self._specs.write, able)
        return written | {claim.uid: PrepareError(f"{claim}: {reasons[claim.uid]}") for claim in unable}

    async def _unprepare(self, claims: Mapping[Uid, ClaimIdentity]) -> dict[Uid, PrepareError | None]:
        prepared_claims = await self._load_prepared_claims()
        answers = await asyncio.to_thread(self._specs.remove, claims.values())
        removed = {uid: p for uid in claims if answers[uid] is None and (p := prepared_claims.get(uid)) is not None}
        if not removed:
            return answers
        remaining = tuple(preparation for preparation in prepared_claims.all if preparation.claim.uid not in removed)
        try:
            await asyncio.to_thread(self._checkpoint.write, remaining)
        except CheckpointError as error:
            usable, _ = self._recheck_all(PreparedClaims(removed.values()))
            await asyncio.to_thread(self._specs.write, usable)  # still prepared, and possibly in use
            return answers | {
                uid: PrepareError(f"{preparation.claim}: not unprepared: {error}")
                for uid, preparation in removed.items()
            }
        for uid in removed:
            prepared_claims.release(uid)
        self._observe_step(PrepareStep.RELEASED)
        self._released.set()
        self._released = asyncio.Event()
        try:
            await self._enforce(prepared_claims)
        except PrepareError as refused:
            # Only other claims could benefit, and the next reconciliation serves them: no reason to keep the pod
            # from terminating.
            log.warning("driver %s: after unprepare: %s", self._driver.name, refused)
        return answers

    async def _recover(self) -> None:
        prepared_claims = await self._load_prepared_claims()
        usable, refused = await self._refresh_and_recheck(prepared_claims)
        await asyncio.to_thread(self._specs.repair, usable, refused)
        try:
            await self._enforce(prepared_claims)
        except PrepareError as problem:
            log.warning("driver %s: at start: %s", self._driver.name, problem)

    async def _reconcile(self) -> None:
        prepared_claims = await self._load_prepared_claims()
        before = {preparation.claim.uid: preparation for preparation in prepared_claims.all}
        usable, refused = await self._refresh_and_recheck(prepared_claims)
        changed = [preparation for preparation in usable if preparation != before[preparation.claim.uid]]
        await asyncio.to_thread(self._specs.reconcile, usable, changed, refused)
        await self._enforce(prepared_claims)

    async def _enforce(self, prepared_claims: PreparedClaims) -> None:
        """Call the driver's `enforce` with all prepared claims; raises PrepareError."""
        try:
            await self._driver.enforce(prepared_claims.all)
        except PrepareError:
            raise
        except Exception as error:
            log.exception("driver %s: enforcing failed", self._driver.name)
            raise PrepareError(f"driver {self._driver.name} failed: {error!r}; see the plugin's log") from error
        self._observe_step(PrepareStep.ENFORCED)

    async def _load_prepared_claims(self) -> PreparedClaims:
        """Return the prepared claims; re-read the checkpoint if the other instance of a rolling update wrote it.

        A checkpoint that was removed is written again from memory: containers still use its devices.
        """
        if self._prepared is not None and self._prepared.all and self._checkpoint.missing:
            log.error("checkpoint %s: was removed; writing it again from memory", self._checkpoint.path)
            await asyncio.to_thread(self._checkpoint.write, self._prepared.all)
        if self._prepared is None:
            await asyncio.to_thread(self._check_checkpoint_not_lost)
        if self._prepared is None or self._checkpoint.changed:
            preparations = await asyncio.to_thread(self._checkpoint.read)
            self._log_released_elsewhere(preparations)
            try:
                self._prepared = PreparedClaims(preparations)
            except DoubleAllocationError as error:
                raise CheckpointError(
                    f"checkpoint {self._checkpoint.path} allocates a device to two claims: {error}. "
                    "No claim is prepared or unprepared until you resolve this: stop the plugin, delete the pods of "
                    f"both claims on this node, mv {self._checkpoint.previous} {self._checkpoint.path}"
                ) from error
        return self._prepared

    def _log_released_elsewhere(self, preparations: Iterable[PreparedClaim]) -> None:
        """Log claims that were released elsewhere: by hand, or by the other instance of a rolling update."""
        gone = {preparation.claim.uid: preparation.claim for preparation in self.prepared_claims}
        for preparation in preparations:
            gone.pop(preparation.claim.uid, None)
        by_hand = release_journal.read_releases(self._lock.folder) if gone else {}
        for uid, claim in gone.items():
            if uid in by_hand:
                log.warning("%s: was released manually: %s", claim, by_hand[uid])
            else:
                log.info("%s: was unprepared by another instance of the plugin", claim)

    def _check_checkpoint_not_lost(self) -> None:
        """Raise CheckpointError if there are CDI specs but no checkpoint.

        The checkpoint is written before the CDI specs and updated after their removal, so it was lost. Otherwise all
        devices would count as free, and the CDI specs as orphans. If the previous checkpoint exists, `Checkpoint.read`
        reports the loss.
        """
        if not self._checkpoint.missing or self._checkpoint.previous.exists():
            return
        try:
            witnesses = len(self._cdi.uids())
        except OSError:  # the directory cannot be written either: each claim will be refused with that reason
            return
        if witnesses:
            raise self._checkpoint.lost(
                f"is missing, but {self._cdi.folder} has the CDI specs of {witnesses} prepared claims"
            )

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the lock of the driver's directory; raises LockError."""
        await self._lock.acquire(within=LOCK_TIMEOUT)
        try:
            self._observe_step(PrepareStep.LOCKED)
            yield
        finally:
            self._lock.release()

    async def _run_locked(self, section: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lock, then run the section to its end, even if the caller is cancelled."""
        await self._lock.acquire(within=LOCK_TIMEOUT)
        task = asyncio.create_task(self._run_and_unlock(section))
        self._running_tasks.add(task)
        task.add_done_callback(self._on_done)
        await asyncio.shield(task)

    async def _run_and_unlock(self, section: Callable[[], Awaitable[None]]) -> None:
        try:
            self._observe_step(PrepareStep.LOCKED)
            await section()
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


def _verify_allocation_unchanged(known: PreparedClaim, request: PrepareRequest) -> None:
    """Raise PrepareError unless the devices of a prepared claim are still the allocated ones.

    A claim that was deallocated and allocated again keeps its uid. Containers may still use its former devices.
    """
    had, has = _prepared_devices(known), _allocated_devices(request)
    if had == has:
        return
    lost, new = (", ".join("/".join(filter(None, device)) for device in sorted(side)) for side in (had, has))
    raise PrepareError(
        f"{request.claim}: is prepared on this node with {lost}, but is now allocated {new}; "
        "delete all its pods on this node, this pod included"
    )


def _checkpoint_round_trip(prepared: PreparedClaim) -> PreparedClaim:
    """Return the prepared claim as the next process will read it: drivers see the same before and after a restart."""
    return msgspec.json.decode(msgspec.json.encode(prepared), type=PreparedClaim)


def _verify_complete(prepared: PreparedClaim, request: PrepareRequest) -> None:
    """Raise ValueError unless a driver's answer has the identity and exactly the allocated devices of the claim."""
    if prepared.claim != request.claim or _prepared_devices(prepared) != _allocated_devices(request):
        raise ValueError(
            f"allocated {sorted(_allocated_devices(request))}, prepared {sorted(_prepared_devices(prepared))}"
        )


def _prepared_devices(prepared: PreparedClaim) -> set[tuple[str, str, str]]:
    return {(device.pool, device.device, device.share) for device in prepared.devices}


def _allocated_devices(request: PrepareRequest) -> set[tuple[str, str, str]]:
    return {(result.pool, result.device, result.share_id or "") for result in request.results}
