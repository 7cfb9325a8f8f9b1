"""Parses the kernel's files about usage: ``/proc/stat``, ``/proc/meminfo``, and the files of cgroups v1 and v2.

Each function raises `MalformedKernelFileError` for a text without the fields it needs.
"""

import re
from typing import Final

from dra.model.meta import Struct

TICKS_PER_SECOND: Final = 100
"""USER_HZ: the kernel shows times of ``/proc/stat`` in hundredths of a second, whatever its own frequency is."""

NANOS_PER_TICK: Final = 10**9 // TICKS_PER_SECOND
BYTES_PER_KIB: Final = 1024

_SOME: Final = re.compile(rb"some avg10=([0-9.]+) avg60=([0-9.]+) avg300=([0-9.]+) total=([0-9]+)")


class MalformedKernelFileError(ValueError):
    """A file of the kernel lacks a field; the text names file and field."""


class CpuTicks(Struct, frozen=True):
    """The times of all CPUs since the boot, in hundredths of a second, as the first line of ``/proc/stat`` has them."""

    user: int
    """Includes the time of guests of virtual machines, which the file shows once more in a field of its own."""

    nice: int
    system: int
    irq: int
    softirq: int

    @property
    def busy(self) -> int:
        """The time in which CPUs worked: not idle, not waiting for a disk, not stolen by a hypervisor."""
        return self.user + self.nice + self.system + self.irq + self.softirq

    def is_before(self, later: "CpuTicks") -> bool:
        """Report whether no time is less in a later reading: times step back when a CPU is unplugged."""
        return (
            self.user <= later.user
            and self.nice <= later.nice
            and self.system <= later.system
            and self.irq <= later.irq
            and self.softirq <= later.softirq
        )


class NodeMemory(Struct, frozen=True):
    """The memory of a machine."""

    total_bytes: int
    available_bytes: int

    @property
    def used_bytes(self) -> int:
        """The memory that no new process could get: without the page cache that the kernel can give back."""
        return max(0, self.total_bytes - self.available_bytes)


class CpuPressure(Struct, frozen=True):
    """The share of the time in which some process of a cgroup was ready to run and waited for a CPU."""

    avg10_percent: float
    """The average of ten seconds; the others are those of one and of five minutes."""

    avg60_percent: float
    avg300_percent: float
    total_micros: int
    """The time since the cgroup was created."""


def parse_stat(content: bytes) -> CpuTicks:
    """Return the times of all CPUs from ``/proc/stat``."""
    words = content[: content.find(b"\n")].split()
    if len(words) < 8 or words[0] != b"cpu":  # noqa: PLR2004 - the fields up to softirq
        raise MalformedKernelFileError("/proc/stat: the first line is not the sum of all CPUs")
    user, nice, system, _idle, _iowait, irq, softirq = map(_integer, words[1:8])
    return CpuTicks(user=user, nice=nice, system=system, irq=irq, softirq=softirq)


def parse_meminfo(content: bytes) -> NodeMemory:
    """Return total and available memory from ``/proc/meminfo``, whose kB are KiB."""
    return NodeMemory(
        total_bytes=_field(content, b"MemTotal:", file="/proc/meminfo") * BYTES_PER_KIB,
        available_bytes=_field(content, b"MemAvailable:", file="/proc/meminfo") * BYTES_PER_KIB,
    )


def parse_amount(content: bytes) -> int:
    """Return the number in a file that has nothing else, such as ``cpuacct.usage`` and ``memory.current``."""
    return _integer(content)


def parse_cpu_stat_nanos(content: bytes) -> int:
    """Return the CPU time of a cgroup in nanoseconds from its ``cpu.stat`` of v2, which counts microseconds."""
    return _field(content, b"usage_usec", file="cpu.stat") * 1000


def parse_inactive_file_bytes(content: bytes, *, unified: bool) -> int:
    """Return the page cache that a cgroup does not use actively from its ``memory.stat``.

    v1 has one field for the cgroup alone and one with the cgroups below, where a pod's memory is; v2 has the latter
    only.
    """
    return _field(content, b"inactive_file" if unified else b"total_inactive_file", file="memory.stat")


def parse_pressure(content: bytes) -> CpuPressure:
    """Return how long some process of a cgroup waited for a CPU, from ``cpu.pressure``."""
    match = _SOME.match(content)
    if match is None:
        raise MalformedKernelFileError("cpu.pressure: has no line of some")
    avg10, avg60, avg300, total = match.groups()
    return CpuPressure(
        avg10_percent=float(avg10), avg60_percent=float(avg60), avg300_percent=float(avg300), total_micros=int(total)
    )


def working_set_bytes(usage_bytes: int, inactive_file_bytes: int) -> int:
    """Return the memory of a cgroup that the kernel could not give back easily, as the kubelet counts it for evictions.

    Files on a tmpfs are counted, since nothing can reclaim them. Both amounts change while they are read one after
    the other, so the difference may be negative: then it is 0.
    """
    return max(0, usage_bytes - inactive_file_bytes)


def _field(content: bytes, name: bytes, *, file: str) -> int:
    """Return the number after a name at the start of a line."""
    start = 0 if content.startswith(name + b" ") else content.find(b"\n" + name + b" ") + 1
    if start == 0 and not content.startswith(name + b" "):
        raise MalformedKernelFileError(f"{file}: has no field {name.decode().rstrip(':')}")
    words = content[start + len(name) : start + len(name) + 64].split(None, 1)
    return _integer(words[0] if words else b"")


def _integer(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise MalformedKernelFileError(f"kernel file: {text[:32]!r} is not a number") from None
