"""The prepared claims of one driver in memory and in the checkpoint, which two instances of the plugin may write.

To be used with the lock of the driver's directory (`kubeletplugin.directory_lock`).
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from kubeletplugin import release_journal
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.checkpoint import Checkpoint, CheckpointError
from kubeletplugin.contract import PreparedClaim
from kubeletplugin.prepared_claims import DoubleAllocationError, PreparedClaims

log = logging.getLogger(__name__)


class ClaimStore:
    """The prepared claims, loaded from the checkpoint and written to it."""

    def __init__(self, checkpoint: Checkpoint[PreparedClaim], *, cdi: CdiSpecDirectory, folder: Path) -> None:
        """Create a store; `folder` is the driver's directory, which may have the journal of manual releases."""
        self._checkpoint = checkpoint
        self._cdi = cdi
        self._folder = folder
        self._prepared: PreparedClaims | None = None
        self._trusted = True
        """Whether memory and checkpoint agree, unless another process has written the checkpoint."""
        self._released = asyncio.Event()

    @property
    def claims(self) -> tuple[PreparedClaim, ...]:
        """The prepared claims in memory; the checkpoint is not read."""
        return self._prepared.all if self._prepared is not None else ()

    @property
    def released(self) -> asyncio.Event:
        """The event that is set when devices are released next."""
        return self._released

    def write(self, claims: tuple[PreparedClaim, ...]) -> None:
        """Write the checkpoint; blocks, and raises CheckpointError."""
        self._checkpoint.write(claims)

    def distrust_memory(self) -> None:
        """Have the next `load` read the checkpoint: a call ended in the middle, and its claims may not be recorded."""
        self._trusted = False

    def announce_release(self) -> None:
        """Wake the calls that wait for `released`."""
        self._released.set()
        self._released = asyncio.Event()

    async def load(self) -> PreparedClaims:
        """Return the prepared claims; re-read the checkpoint if the other instance of a rolling update wrote it.

        A checkpoint that was removed is written again from memory: containers still use its devices. Raises
        CheckpointError.
        """
        if self._prepared is not None and self._trusted and not self._checkpoint.changed:
            return self._prepared
        if self.claims and self._checkpoint.changed and self._checkpoint.missing:
            log.error("checkpoint %s: was removed; writing it again from memory", self._checkpoint.path)
            await asyncio.to_thread(self._checkpoint.write, self.claims)
        if self._prepared is None:
            await asyncio.to_thread(self._check_not_lost)
        if self._prepared is None or not self._trusted or self._checkpoint.changed:
            preparations = await asyncio.to_thread(self._checkpoint.read)
            if self._trusted:
                self._log_released_elsewhere(preparations)
            try:
                self._prepared = PreparedClaims(preparations)
            except DoubleAllocationError as error:
                raise CheckpointError(
                    f"checkpoint {self._checkpoint.path} allocates a device to two claims: {error}. "
                    "No claim is prepared or unprepared until you resolve this: stop the plugin, delete the pods of "
                    f"both claims on this node, mv {self._checkpoint.previous} {self._checkpoint.path}"
                ) from error
            self._trusted = True
        return self._prepared

    def _log_released_elsewhere(self, preparations: Iterable[PreparedClaim]) -> None:
        """Log claims that were released elsewhere: by hand, or by the other instance of a rolling update."""
        gone = {preparation.claim.uid: preparation.claim for preparation in self.claims}
        for preparation in preparations:
            gone.pop(preparation.claim.uid, None)
        by_hand = release_journal.read_releases(self._folder) if gone else {}
        for uid, claim in gone.items():
            if uid in by_hand:
                log.warning("%s: was released manually: %s", claim, by_hand[uid])
            else:
                log.info("%s: was unprepared by another instance of the plugin", claim)

    def _check_not_lost(self) -> None:
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
