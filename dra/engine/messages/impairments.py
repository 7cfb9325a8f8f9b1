"""Impairments of a kubelet plugin's driver that runs but cannot serve: Events on its Node, and a label of a metric."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from dra.engine.messages.texts import Guidance

_LOG: Final = "`kubectl logs -n dra-reserve-nodes POD` of the node's plugin says it again"


class Impairment(StrEnum):
    """The impairment of a driver that Events and metrics report."""

    NOT_RECOVERED = "NotRecovered"
    DRIVER_IMPAIRED = "DriverImpaired"
    NOT_ENFORCED = "NotEnforced"


IMPAIRMENTS: Final[Mapping[Impairment, Guidance]] = {
    Impairment.NOT_RECOVERED: Guidance(
        "The claims that have devices on the node are not known: none is prepared or unprepared, and while the "
        "checkpoint cannot be read the node's devices are withdrawn.",
        "The driver's checkpoint cannot be read or written, or another instance of the plugin keeps it locked.",
        f"The Event names the file and both ways out; {_LOG}.",
    ),
    Impairment.DRIVER_IMPAIRED: Guidance(
        "The driver gives no devices away on the node; those of prepared claims are given back as ever.",
        "The kubelet manages CPUs itself (`cpuManagerPolicy`), or NVIDIA's driver is not there.",
        f"As the Event says; {_LOG}.",
    ),
    Impairment.NOT_ENFORCED: Guidance(
        "The node is not as the prepared claims want it: containers may run on CPUs of others.",
        "The cgroups cannot be found or written, or too few CPUs are left for containers without a claim.",
        f"Look at what the driver needs of a node, in `docs/how-to/cpus.md`; {_LOG}.",
    ),
}
