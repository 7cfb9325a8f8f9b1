"""One sync of our controller: a claim is decided and the plan carried out, as controller/claims.py and writer.py
do.

Claim writes are a chain of resourceVersions, then comes the rest. Whatever fails ends the sync. Every answer enters the
claim cache before the next decision.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from dra.engine.claims import live_reads, patches, scheduling_gates
from dra.engine.claims.actions import (
    ClaimPlan,
    ClaimWrite,
    Deallocate,
    DeleteClaim,
    Lookup,
    LookUpNode,
    LookUpPlacements,
    LookUpPod,
    LookUpWorkload,
    ResyncPod,
    Ungate,
)
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.deallocation_check import BoundMeanwhileError, DeallocationCheck
from dra.engine.claims.decide import decide
from dra.engine.claims.policy import Policy
from dra.engine.claims.view import ClaimView
from dra.engine.instants import Instant
from dra.model.claims import ResourceClaim
from dra.model.meta import Key
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from tests.dra.engine.simulation.binding_observations import BindingObservations
from tests.dra.engine.simulation.requests import ApiError, Conflict, Invalid, NotFound, RequestProcess, send_request
from tests.dra.engine.simulation.server import Actor, Clock, DecisionBasis, Server
from tests.dra.engine.simulation.violation import Violation

MAX_ROUNDS: Final = 4
"""Decisions in a row on one claim: a write makes the next one possible (listed, then ungated)."""

RETRY: Final = 0.2
"""Seconds before a claim whose plan failed is decided again."""


class ClaimSync:
    """Decides one claim until there is nothing to write."""

    def __init__(
        self,
        key: Key,
        *,
        claim_cache: ClaimCache,
        policy: Policy,
        server: Server,
        clock: Clock,
        requeue_at: Callable[[Key, Instant], None],
        ask: Callable[[Key, Lookup], None],
        reasons: Counter[str],
        bindings: BindingObservations,
        nodes: Mapping[Key, Node],
        pods: Mapping[Key, Pod],
    ) -> None:
        self.stale = False
        """Whether the claim cache has changed since the last decision by something else than this sync."""

        self._key = key
        self._claim_cache = claim_cache
        self._policy = policy
        self._server = server
        self._clock = clock
        self._requeue_at = requeue_at
        self._ask = ask
        self._reasons = reasons
        self._bindings = bindings
        self._nodes = nodes
        self._pods = pods
        self._basis = DecisionBasis()

    def run(self) -> RequestProcess[None]:
        """Decide and apply."""
        try:
            for _ in range(MAX_ROUNDS):
                view = self._claim_cache.view(self._key, now=self._clock.now)
                self.stale = False
                self._basis = DecisionBasis(nodes=dict(self._nodes), pods=dict(self._pods))
                plan = self._decide(view)
                self._reasons.update(reason.code for reason in plan.reasons)
                yield from self._apply(plan, view)
                self._requeue_at(self._key, plan.wake_at)
                if not plan.claim_writes:
                    return
        except Invalid as error:
            raise Violation(f"claim {self._key[1]}: the API server refuses what was decided: {error}") from error
        except (ApiError, BoundMeanwhileError):
            self._requeue_at(self._key, self._clock.now + RETRY)

    def _decide(self, view: ClaimView | None) -> ClaimPlan:
        now = self._clock.now
        if view is None:
            return scheduling_gates.ungate_without_claim(self._claim_cache.gated_without_claim(self._key), now=now)
        plan = decide(view, policy=self._policy, now=now)
        if plan != decide(view, policy=self._policy, now=now):
            raise Violation(f"claim {self._key[1]}: two plans for one view")
        return plan

    def _apply(self, plan: ClaimPlan, view: ClaimView | None) -> RequestProcess[None]:
        if view is not None and plan.claim_writes:
            yield from self._write_claim(plan, view)
        for action in plan.actions:
            match action:
                case Ungate():
                    yield from self._ungate(action)
                case ResyncPod():
                    yield from self._resync_pod(action)
                case DeleteClaim():
                    yield from self._delete_claim(action)
                case LookUpPod() | LookUpPlacements() | LookUpNode() | LookUpWorkload():
                    self._ask(self._key, action)
                case _:
                    pass

    # Writes on the claim:

    def _write_claim(self, plan: ClaimPlan, view: ClaimView) -> RequestProcess[None]:
        version, decided = view.claim.metadata.resource_version, self._clock.now
        for write in plan.claim_writes:
            if isinstance(write, Deallocate) and write.confirm:
                yield from self._confirm_unbound(write)
            version = yield from self._patch_claim(write, view.claim, version)
        if not self.stale and self._clock.now == decided:
            self._check_idempotent(plan)

    def _patch_claim(self, write: ClaimWrite, claim: ResourceClaim, version: str) -> RequestProcess[str]:
        patch: Callable[[], ResourceClaim] = partial(
            self._server.merge_patch,
            ResourceClaim,
            self._key,
            patches.merge_patch_of(write),
            uid=claim.metadata.uid,
            version=version,
            status=patches.subresource(write) == "status",
            by=Actor.US,
        )
        try:
            written = yield from send_request(partial(self._decided, patch))
        except (Conflict, NotFound):
            yield from self._reread_claim(claim)
            raise
        self._claim_cache.observe_claim(written, now=self._clock.now, ours=True)
        self._bindings.observe_claim(written, now=self._clock.now)
        return written.metadata.resource_version

    def _decided(self, patch: Callable[[], ResourceClaim]) -> ResourceClaim:
        """Make a write that is to be judged by what was known when it was decided; it may be made much later."""
        self._server.basis = self._basis
        return patch()

    def _check_idempotent(self, plan: ClaimPlan) -> None:
        """After its own writes, and with no news, a decision wants no more of them."""
        view = self._claim_cache.view(self._key, now=self._clock.now)
        again = decide(view, policy=self._policy, now=self._clock.now) if view is not None else ClaimPlan()
        if again.claim_writes:
            raise Violation(f"claim {self._key[1]}: after {plan.claim_writes} it wants {again.claim_writes}")

    def _reread_claim(self, known: ResourceClaim) -> RequestProcess[None]:
        try:
            claim = yield from send_request(partial(self._server.get, ResourceClaim, self._key))
        except NotFound:
            self._claim_cache.forget_claim(self._key, known.metadata.uid)
            return
        self._claim_cache.observe_claim(claim, now=self._clock.now)

    def _confirm_unbound(self, write: Deallocate) -> RequestProcess[None]:
        """Read the pods live: any that is bound, or nominated by a binding cycle, forbids the deallocation."""
        check = DeallocationCheck(write)
        pods = yield from send_request(partial(self._server.list, Pod))
        self.stale = True
        for pod in check.users(pods):
            self._claim_cache.observe_pod(pod, now=self._clock.now)
            check.check_pod(pod)
        if check.needs_nodes:
            for node in check.nodes_to_check((yield from send_request(partial(self._server.list, Node)))):
                self._claim_cache.observe_node(node, now=self._clock.now)
                check.check_node(node)

    # The rest:

    def _ungate(self, action: Ungate) -> RequestProcess[None]:
        patch: Callable[[], Pod] = partial(
            self._server.merge_patch,
            Pod,
            action.pod,
            patches.ungate_patch(action.other_gates),
            uid=action.uid,
            version=action.resource_version,
            status=False,
            by=Actor.US,
        )
        try:
            pod = yield from send_request(patch)
        except Conflict:
            yield from self._reread_pod(action)
        except NotFound:
            self._claim_cache.forget_pod(action.uid)
        else:
            self._claim_cache.observe_pod(pod, now=self._clock.now)

    def _reread_pod(self, action: Ungate) -> RequestProcess[None]:
        try:
            pod = yield from send_request(partial(self._server.get, Pod, action.pod))
        except NotFound:
            self._claim_cache.forget_pod(action.uid)
            return
        live_reads.observe_pod(self._claim_cache, action.uid, pod, now=self._clock.now)
        self._claim_cache.dirty.update((action.pod[0], name) for name in claim_names(pod))

    def _resync_pod(self, action: ResyncPod) -> RequestProcess[None]:
        body = patches.resync_patch(f"{self._clock.now}")
        patch: Callable[[], Pod] = partial(
            self._server.merge_patch, Pod, action.pod, body, uid=action.uid, version="", status=False, by=Actor.US
        )
        try:
            yield from send_request(patch)
        except (Conflict, NotFound):
            return

    def _delete_claim(self, action: DeleteClaim) -> RequestProcess[None]:
        try:
            yield from send_request(partial(self._server.remove, ResourceClaim, action.claim, action.uid, by=Actor.US))
        except (Conflict, NotFound):
            self._claim_cache.forget_claim(action.claim, action.uid)
