"""The annotation ``scheduling.koordinator.sh/resource-status``: the CPUs that a pod is bound to.

``{"cpuset":"0-3,8"}``, from the data that the CPU driver writes into the status of the claims' devices once it has
chosen the CPUs.
"""

from collections.abc import Iterable

import msgspec

from dra.api.koordinator import well_known
from dra.engine.cpus import cpusets
from dra.engine.cpus.cpusets import CpuSet
from dra.model.claims import AllocatedDeviceStatus


def resource_status(statuses: Iterable[AllocatedDeviceStatus]) -> str | None:
    """Return the value of the annotation; None while the CPU driver has reported no CPUs."""
    cpus = reported_cpus(statuses)
    return msgspec.json.encode({"cpuset": str(cpus)}).decode() if cpus else None


def reported_cpus(statuses: Iterable[AllocatedDeviceStatus]) -> CpuSet:
    """Return the CPUs that the CPU driver has reported.

    CPUs that cannot be read are left out: the status may have been written by anybody with the permission to do so.
    """
    cpus = cpusets.NO_CPUS
    for status in statuses:
        if status.driver == well_known.CPU_DRIVER and status.cpuset:
            try:
                cpus |= cpusets.parse(status.cpuset)
            except ValueError:
                continue
    return cpus
