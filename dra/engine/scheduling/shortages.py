"""Resources that overcommitted nodes lack for their Reservations, and the texts that say so."""

from dra.api.reservations import well_known
from dra.model import quantities
from dra.model.quantities import NO_AMOUNTS, Amounts
from dra.model.scheduling import SchedulerPod


def growth(before: Amounts | None, after: Amounts | None) -> Amounts:
    """Return the resources of which a node lacks more than before, with all that it lacks of these."""
    if before is None or not after:
        return NO_AMOUNTS
    return {name: amount for name, amount in after.items() if amount > before.get(name, 0)}


def overcommitted_text(pod: SchedulerPod, shortage: Amounts, *, is_new: bool) -> str:
    """Return what a pod takes that Reservations of its node hold: it is new there, or was resized."""
    node, scheduler = pod.spec.node_name, pod.spec.scheduler_name or "none"
    cause = f"was bound to node {node} without asking dra-reserve (schedulerName {scheduler})"
    remedy = "Have its scheduler ask the extender, or delete the pod"
    if not is_new:
        cause = f"was resized on node {node}, beyond what is free there"
        remedy = "Resize the pod back, or delete it"
    return (
        f"pod {'/'.join(pod.metadata.key)}: {cause}; what is reserved there is short of "
        f"{_amounts_text(shortage)}. {remedy}"
    )


def shrunk_text(node: str, shortage: Amounts) -> str:
    """Return what the Reservations of a node lack since the node has less than before."""
    return (
        f"node {node}: has less than its pods and Reservations take, since its allocatable or annotation "
        f"{well_known.ANNOTATION_NODE_RESERVATION} has changed; what is reserved there is short of "
        f"{_amounts_text(shortage)}. Give the node back what it had, or delete pods or Reservations there"
    )


def _amounts_text(amounts: Amounts) -> str:
    return ", ".join(f"{name} {quantities.format_quantity(amount)}" for name, amount in sorted(amounts.items()))
