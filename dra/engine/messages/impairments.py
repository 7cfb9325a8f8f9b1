"""Impairments of a kubelet plugin's driver that runs but cannot serve, and of single claims: Events on its Node.

Those of a driver are a label of a metric, too.
"""

from typing import Final

from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import ExplainedReason, explain

_LOG: Final = "`kubectl logs -n dra-reserve-nodes POD` shows the error for the plugin pod of the node"


class ClaimImpairment(ExplainedReason):
    """The reason of an Event about a prepared claim that lacks a part of its devices."""

    CLAIM_IMPAIRED = explain(
        "ClaimImpaired",
        "Containers of a prepared claim run without a part of its CPUs. Other claims are not concerned.",
        "CPUs of the claim were switched off, or a CPU's number stands for another CPU since the node was started "
        "again, or an earlier build of the plugin did not record which container the CPUs belong to.",
        "The Event names the claim and the CPUs. Switch the CPUs on again, or delete the pods of the claim, so that "
        "the claim is allocated again.",
    )


class Impairment(ExplainedReason):
    """The impairment of a driver that Events and metrics report."""

    NOT_RECOVERED = explain(
        "NotRecovered",
        "The driver does not know the prepared claims of the node, so it prepares and unprepares no claim. While the "
        "checkpoint cannot be read, the driver withdraws the node's devices.",
        "The driver's checkpoint cannot be read or written, or another instance of the plugin holds its lock.",
        f"The Event names the file and both remedies; {_LOG}.",
    )
    DRIVER_IMPAIRED = explain(
        "DriverImpaired",
        "The driver allocates no devices on the node; it still unprepares prepared claims.",
        "The kubelet allocates CPUs (`cpuManagerPolicy`), or the driver of the node's GPUs is not installed.",
        f"Follow the Event; {_LOG}.",
    )
    NOT_ENFORCED = explain(
        "NotEnforced",
        "The node does not match its prepared claims: containers may run on CPUs of other claims.",
        "The cgroups cannot be found or written, or too few CPUs are left for containers without a claim.",
        f"Check the requirements for nodes in {page_url('how-to/cpus.md')}; {_LOG}.",
    )
