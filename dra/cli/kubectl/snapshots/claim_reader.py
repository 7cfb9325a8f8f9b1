"""Reads what the explanation of one claim needs: of a claim in use neither all pods nor all claims."""

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.diagnosis.claim_focus import ClaimFocus
from dra.engine.diagnosis.snapshot import Snapshot
from dra.kube.errors import ApiError, Forbidden
from dra.kube.resources import CLAIMS, PODS
from dra.model.claims import WatchedClaim
from dra.model.meta import Key
from dra.model.scheduling import SchedulerPod


async def read_around_claim(
    connection: Connection, key: Key, scope: SnapshotScope, *, namespace: str | None, lease: Key
) -> Snapshot:
    """Return a snapshot that explains a claim as a snapshot of the whole cluster does; raise ApiError as that does.

    ``namespace`` and ``lease`` are those of `SnapshotReader`.
    """
    try:
        focus = ClaimFocus.of(await connection.client.get(CLAIMS, key, WatchedClaim))
    except ApiError:  # the list says whether the claim exists, and where there is one of this name
        focus = None
    if focus is not None:
        snapshot = await _FocusedReader(connection, focus, namespace=namespace, lease=lease).read(scope)
        if focus.suffices(claims=snapshot.claims, pods=snapshot.pods):
            return snapshot
    return await SnapshotReader(connection, namespace=namespace, lease=lease).read(scope)


class _FocusedReader(SnapshotReader):
    """Reads a snapshot with the pods of the claim's namespace and the claims that matter for a claim."""

    def __init__(self, connection: Connection, focus: ClaimFocus, *, namespace: str | None, lease: Key) -> None:
        super().__init__(connection, namespace=namespace, lease=lease)
        self._focus = focus

    async def list_claims(self) -> list[WatchedClaim]:
        claims = await self._lists.namespaced(CLAIMS, WatchedClaim, needed=True, may_matter=self._focus.may_need_claim)
        return [claim for claim in claims if self._focus.needs_claim(claim)]

    async def list_pods(self) -> list[SchedulerPod]:
        namespace = self._focus.key[0]
        try:
            return await self._lists.all(PODS, self.pod_model, namespace, may_matter=self._focus.may_need_pod)
        except Forbidden as error:
            self._lists.add_gap(PODS.label, error)
            return []
