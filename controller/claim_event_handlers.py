"""The event handlers of the cache of claims: for claims, pods that use claims, nodes, templates and reservations."""

from controller.informers import ControllerInformers
from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.clock import Clock
from dra.kube.event_handlers import ignore
from dra.kube.store import Synced
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid, UnstructuredObject
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.resource_versions import is_older
from dra.model.templates import ResourceClaimTemplate


class ClaimEventHandlers:
    """Subscribes the cache of claims to shared informers, before every other part."""

    def __init__(self, cache: ClaimCache, informers: ControllerInformers, *, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._informers = informers
        self._reservation_versions: dict[Uid, str] = {}
        informers.nodes.subscribe(self._observe_node, self._forget_node, listed=self._nodes_listed)
        informers.claims.subscribe(self._observe_claim, self._forget_claim, listed=self._claims_listed)
        informers.pods.subscribe(self._observe_pod, self._forget_pod, leave=self._leave_pod, listed=self._pods_listed)

    def watch_templates(self) -> None:
        """Feed the cache with templates, too: claims are generated from them."""
        owners = self._cache.owners
        self._informers.templates.subscribe(owners.observe_template, self._forget_template, restored=ignore)

    def watch_reservations(self) -> None:
        """Feed the cache with reservations, too: they hold claims."""
        self._cache.watch_reservations()
        self._informers.reservations.subscribe(self._observe_reservation, self._forget_reservation)

    def _observe_node(self, node: Node) -> None:
        self._cache.observe_node(node, now=self._clock.now())

    def _forget_node(self, node: Node) -> None:
        self._cache.forget_node(node.metadata.name)

    def _observe_claim(self, claim: ResourceClaim) -> None:
        self._cache.observe_claim(claim, now=self._clock.now())

    def _forget_claim(self, claim: ResourceClaim) -> None:
        self._cache.forget_claim(claim.metadata.key, claim.metadata.uid)

    def _observe_pod(self, pod: Pod) -> None:
        self._cache.observe_pod(pod, now=self._clock.now())

    def _forget_pod(self, pod: Pod) -> None:
        self._cache.observe_pod_deleted(pod, now=self._clock.now())

    def _leave_pod(self, pod: Pod) -> None:
        self._cache.forget_pod(pod.metadata.uid, certain=False)

    def _forget_template(self, template: ResourceClaimTemplate) -> None:
        self._cache.owners.forget_template(template.metadata.key)

    def _observe_reservation(self, obj: UnstructuredObject) -> None:
        uid, version = obj.metadata.uid, obj.metadata.resource_version
        if is_older(version, self._reservation_versions.get(uid, "")):
            return  # the response to a write was faster than the watch
        self._reservation_versions[uid] = version
        try:
            reservation = parse_reservation(obj.content)
        except MalformedReservationError:
            self._cache.reservation_unreadable(uid)
        else:
            self._cache.observe_reservation(uid, reservation)

    def _forget_reservation(self, obj: UnstructuredObject) -> None:
        self._reservation_versions.pop(obj.metadata.uid, None)
        self._cache.forget_reservation(obj.metadata.uid)

    def _claims_listed(self, synced: Synced) -> None:
        listed = {key: claim.metadata.uid for key, claim in self._informers.claims.objects.items()}
        self._cache.claims_listed(listed, synced.resource_version)

    def _pods_listed(self, synced: Synced) -> None:
        listed = {pod.metadata.uid for pod in self._informers.pods.objects.values()}
        self._cache.pods_listed(listed, synced.resource_version)

    def _nodes_listed(self, synced: Synced) -> None:
        self._cache.nodes_listed({name for _, name in self._informers.nodes.objects}, synced.resource_version)
