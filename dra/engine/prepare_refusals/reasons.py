"""Reasons why a driver refuses to prepare an allocated claim that another node may prepare.

The driver reports the reason in the condition ``Ready`` of the allocated device (``status.devices[].conditions``). Two
pods that are scheduled between two publications of the driver's slices may get CPUs of the same cores; the pod that is
prepared last is refused, and its claim keeps CPUs of the node from newcomers. Errors that every node would repeat, such
as malformed parameters, have no reason.
"""

from typing import Final

from dra.api.koordinator.well_known import CPU_DRIVER
from dra.engine.messages.texts import ExplainedReason, KeepsDevices, explain
from dra.model.claims import ResourceClaim

READY: Final = "Ready"
"""Type of the condition; the API names it for devices that are configured as the claim asks."""

_REMEDY: Final = (
    "A pod of a request in Koordinator's form that has a controller is evicted after 30 s. Delete other pods, so that "
    "they are scheduled again. The message of the condition names CPUs and claims: "
    "`kubectl describe resourceclaim -n NAMESPACE NAME`."
)


class PrepareRefusalReason(ExplainedReason):
    """The reason in the condition ``Ready``, and in the label ``reason`` of metrics."""

    CPUS_IN_USE = explain(
        "CPUsInUse",
        "Claims that are prepared on the node leave no CPUs that the claim could use.",
        "The claim was allocated before the driver had published which cores are left, for example because two pods "
        "that require whole cores were scheduled at the same moment.",
        _REMEDY,
        KeepsDevices.YES,
    )
    CPUS_UNSUITABLE = explain(
        "CPUsUnsuitable",
        "The CPUs that the node has for claims cannot satisfy the claim.",
        "After the claim was allocated, CPUs went offline or were reserved, the Node's label "
        "`node.koordinator.sh/cpu-bind-policy` was changed, or the plugin was started with other options.",
        _REMEDY,
        KeepsDevices.YES,
    )


def refusal_reason(claim: ResourceClaim) -> PrepareRefusalReason | None:
    """Return the reason why the CPU driver does not prepare a claim; None if the driver reports none."""
    if claim.status.allocation is None:
        return None
    for device in claim.status.devices or ():
        if device.driver != CPU_DRIVER:
            continue
        for condition in device.conditions or ():
            if condition.type == READY and condition.status == "False" and condition.reason in _REASONS:
                return PrepareRefusalReason(condition.reason)
    return None


_REASONS: Final = frozenset(reason.value for reason in PrepareRefusalReason)
