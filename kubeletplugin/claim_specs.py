"""The CDI specs of prepared claims on disk: written, removed, repaired and withdrawn, with an answer for each claim.

A container that restarts gets what the spec says, without a call to this plugin. So the spec of a claim whose devices
are gone is withdrawn: the container then fails to start, and gets no other device.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from dra.model.meta import Uid
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.contract import ClaimIdentity, PreparedClaim, PrepareError

log = logging.getLogger(__name__)


class ClaimSpecs:
    """The CDI specs of one driver's claims; the methods block, so call them from worker threads."""

    def __init__(self, cdi: CdiSpecDirectory, *, driver: str) -> None:
        self._cdi = cdi
        self._driver = driver

    def write(self, prepared: Iterable[PreparedClaim]) -> dict[Uid, PreparedClaim | PrepareError]:
        """Write the specs of claims; return each claim, or the reason why its spec cannot be written."""
        answers: dict[Uid, PreparedClaim | PrepareError] = {}
        for preparation in prepared:
            try:
                self._cdi.write(preparation)
                answers[preparation.claim.uid] = preparation
            except OSError as error:
                self._remove_outdated(preparation)
                answers[preparation.claim.uid] = PrepareError(
                    f"{preparation.claim}: its CDI spec cannot be written to {self._cdi.folder}: {error.strerror}; "
                    "its devices stay allocated, and the kubelet retries"
                )
        return answers

    def _remove_outdated(self, preparation: PreparedClaim) -> None:
        """Remove a spec that cannot be replaced, unless its edits are those of now: a full disk can still remove."""
        with contextlib.suppress(OSError):
            if not self._cdi.is_intact(preparation):
                self._cdi.remove(preparation.claim.uid)

    def remove(self, claims: Iterable[ClaimIdentity]) -> dict[Uid, PrepareError | None]:
        """Remove the specs of claims; return None, or the reason of a failure, for each."""
        answers: dict[Uid, PrepareError | None] = {}
        for claim in claims:
            try:
                self._cdi.remove(claim.uid)
                answers[claim.uid] = None
            except OSError as error:
                answers[claim.uid] = PrepareError(
                    f"{claim}: its CDI spec cannot be removed from {self._cdi.folder}: {error.strerror}; "
                    "its devices stay allocated, and the kubelet retries"
                )
        return answers

    def repair(self, usable: Sequence[PreparedClaim], refused: Mapping[ClaimIdentity, PrepareError]) -> None:
        """Write the specs of usable claims, and remove those of refused claims and of claims that are not prepared."""
        try:
            orphans = self._cdi.remove_orphans(
                claim.uid for claim in (*(preparation.claim for preparation in usable), *refused)
            )
        except OSError as error:
            orphans = frozenset()
            log.warning(
                "driver %s: old CDI specs cannot be removed from %s: %s",
                self._driver,
                self._cdi.folder,
                error.strerror,
            )
        if orphans:
            log.info("driver %s: removed the CDI specs of claims that are not prepared: %s", self._driver, orphans)
        self.withdraw(refused)
        for answer in self.write(usable).values():
            if isinstance(answer, PrepareError):
                log.warning("driver %s: at start: %s", self._driver, answer)

    def reconcile(
        self,
        usable: Iterable[PreparedClaim],
        changed: Sequence[PreparedClaim],
        refused: Mapping[ClaimIdentity, PrepareError],
    ) -> None:
        """Bring the CDI specs, which containers that restart need, to what the node and the prepared claims are now.

        Those that were removed or damaged, or for which there was no space, are written again.
        """
        try:
            there = self._cdi.uids()
            damaged = [
                preparation
                for preparation in usable
                if preparation not in changed and not self._cdi.is_intact(preparation)
            ]
        except OSError as error:
            log.warning("driver %s: %s cannot be read: %s", self._driver, self._cdi.folder, error.strerror)
            return
        self.withdraw(refused)
        for what, claims in (
            (
                "was missing and has been",
                [preparation for preparation in damaged if preparation.claim.uid not in there],
            ),
            ("was damaged and has been", [preparation for preparation in damaged if preparation.claim.uid in there]),
            ("has changed and has been", changed),
        ):
            for answer in self.write(claims).values():
                log.warning(
                    "%s",
                    answer
                    if isinstance(answer, PrepareError)
                    else f"{answer.claim}: its CDI spec {what} written again",
                )

    def withdraw(self, refused: Mapping[ClaimIdentity, PreparedClaim | PrepareError]) -> None:
        """Remove the CDI specs of claims whose devices are gone: no container may start with other ones."""
        there = [claim for claim in refused if self._cdi.path(claim.uid).exists()]
        for uid, failure in self.remove(there).items():
            claim = next(known for known in there if known.uid == uid)
            if failure is not None:
                log.warning("%s", failure)
            log.warning("%s: no container can be started with its devices: %s", claim, refused[claim])
