"""What the accounting should say, found by looking at everything each time. Slow, and plain to be right."""

from dataclasses import dataclass, field

from dra.api.reservations.model import AllocatePolicy
from dra.model.quantities import PODS


@dataclass
class NaiveAccounting:
    nodes: dict = field(default_factory=dict)
    """Name → capacity."""
    reservations: dict = field(default_factory=dict)
    """Uid → ReservationInfo, all of them on a node."""
    pods: dict = field(default_factory=dict)
    """Uid → (PodInfo, node, uid of the reservation or None)."""

    def allocated(self, uid, resource):
        return sum(p.amounts.get(resource, 0) for p, _, inside in self.pods.values() if inside == uid)

    def new_owner_count(self, uid):
        before = self.reservations[uid].pre_allocated_pods
        return sum(inside == uid and p.uid not in before for p, _, inside in self.pods.values())

    def allocatable(self, uid, resource):
        return self.reservations[uid].allocatable.get(resource, 0)

    def requested(self, uid, resource):
        """A reservation with its consumers, as others see it."""
        return max(self.allocatable(uid, resource), self.allocated(uid, resource))

    def unreserved_requests(self, node, resource):
        return sum(
            p.amounts.get(resource, 0) for p, where, inside in self.pods.values() if where == node and inside is None
        )

    def on(self, node):
        return [uid for uid, r in self.reservations.items() if r.node == node]

    def node_requested(self, node, resource, *, excluding=None):
        return self.unreserved_requests(node, resource) + sum(
            self.requested(uid, resource) for uid in self.on(node) if uid != excluding
        )

    def used(self, node, resource):
        return sum(p.amounts.get(resource, 0) for p, where, _ in self.pods.values() if where == node)

    def free(self, node, resource):
        return self.nodes[node].get(resource, 0) - self.node_requested(node, resource)

    def kept(self, uid, resource):
        """What is kept within, as far as there is still something to keep it of."""
        left = max(0, self.allocatable(uid, resource) - self.allocated(uid, resource))
        return min(self.reservations[uid].reserved.get(resource, 0), left)

    def remaining(self, uid, resource):
        left = self.allocatable(uid, resource) - self.allocated(uid, resource) - self.kept(uid, resource)
        return max(0, left)

    def is_eligible(self, pod, uid):
        r = self.reservations[uid]
        if r.allocate_once and (self.new_owner_count(uid) or r.current_owners - r.pre_allocated_pods - {pod.uid}):
            return False
        held = r.restricted_resources if r.policy is AllocatePolicy.RESTRICTED else r.allocatable.keys()
        common = {name for name, amount in pod.amounts.items() if amount and r.allocatable.get(name)} & held - {PODS}
        if pod.affinity is None and not common:
            return False
        wanted = dict(r.owners[0].label_selector.match_labels)
        return wanted.items() <= dict(pod.labels).items()

    def fits_reservation(self, pod, uid):
        r = self.reservations[uid]
        for resource, amount in pod.amounts.items():
            if not amount:
                continue
            others = self.node_requested(r.node, resource, excluding=uid)
            here = self.allocated(uid, resource) + self.kept(uid, resource)
            if others + here + amount > self.nodes[r.node].get(resource, 0):
                return False
            restricted = r.policy is AllocatePolicy.RESTRICTED and resource in r.restricted_resources
            if restricted and amount > self.remaining(uid, resource):
                return False
        return True

    def fitting_reservations(self, pod, node):
        if pod.ignores_reservations:
            return set()
        return {uid for uid in self.on(node) if self.is_eligible(pod, uid) and self.fits_reservation(pod, uid)}

    def fits_unreserved(self, pod, node):
        wanted = pod.amounts.items()
        if pod.ignores_reservations:
            return all(self.used(node, r) + amount <= self.nodes[node].get(r, 0) for r, amount in wanted if amount)
        return all(amount <= self.free(node, r) for r, amount in wanted if amount)

    def fits(self, pod, node):
        if node not in self.nodes:
            return False
        if self.fitting_reservations(pod, node):
            return True
        return (pod.affinity is None or pod.ignores_reservations) and self.fits_unreserved(pod, node)

    def filter(self, pod):
        return {node for node in self.nodes if self.fits(pod, node)}
