"""The CPU topology of this machine, from the kernel's files in sysfs.

===================================================  ===========================================================
file under /sys/devices                              content
===================================================  ===========================================================
system/cpu/{online,present,offline,isolated}         sets of CPUs
system/cpu/cpuN/topology/physical_package_id         socket
system/cpu/cpuN/topology/core_cpus_list              threads of the core (older kernels: thread_siblings_list)
system/cpu/cpuN/topology/core_id                     the core's number in its socket, for display only
system/cpu/cpuN/cache/indexM/{level,shared_cpu_list} CPUs that share the L3 cache
system/node/nodeN/cpulist                            NUMA nodes; an empty one has memory only
cpu_core/cpus, cpu_atom/cpus, cpu_lowpower/cpus      performance and efficiency cores of hybrid machines
system/cpu/cpuN/regs/identification/midr_el1         the model of an arm64 core
system/cpu/cpuN/cpu_capacity                         the capacity of an arm64 core, 1024 for the largest
===================================================  ===========================================================

In virtual machines and containers some files are missing or contradict each other. Then the reader assumes the least:
no shared core, no known L3 cache, one socket, one NUMA node; `TopologyReading.assumptions` lists the assumptions. A
file that exists but is malformed is an error, since its content might be correct. `TopologyReading.files` has the
content of all files that were read, so that the topology of a support bundle can be read elsewhere.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from dra.engine.cpus.cpusets import CpuSet, MalformedCpuListError, parse
from dra.engine.cpus.topology import CoreType, Cpu, CpuTopology
from dra.model.meta import Struct

SYSFS_CPU: Final = "sys/devices/system/cpu"
SYSFS_NODE: Final = "sys/devices/system/node"
PROC_CPUINFO: Final = "proc/cpuinfo"

CORE_TYPES: Final = {
    "sys/devices/cpu_core/cpus": CoreType.PERFORMANCE,
    "sys/devices/cpu_atom/cpus": CoreType.EFFICIENCY,
    "sys/devices/cpu_lowpower/cpus": CoreType.EFFICIENCY,
}

MAX_CACHES: Final = 16
"""Maximum number of caches that are searched for a CPU; CPUs have four or five."""

SMALL_CORE: Final = 0.75
"""Share of the largest capacity below which a core of an unknown model counts as small.

Capacities of equal cores differ by less, as their maximum frequencies do."""

CoreKey: TypeAlias = tuple[int, int, int]
"""Socket, NUMA node, first of the threads."""


class UnreadableTopologyError(Exception):
    """A file of the kernel cannot be read or parsed; the text begins with the file."""


class TopologyReading(Struct, frozen=True):
    """The result of reading the topology."""

    topology: CpuTopology
    assumptions: tuple[str, ...] = ()
    """Facts that the kernel did not report, with the assumed values."""
    files: Mapping[str, str] = {}
    """All files that were read: path below the root → content."""


def read_topology(root: Path = Path("/")) -> TopologyReading:
    """Read the topology of the machine whose sysfs and proc are below the root; raises UnreadableTopologyError."""
    return _TopologyReader(root).read()


class SysfsTopologySource:
    """The CPU topology of this machine, read from sysfs on demand."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self) -> CpuTopology:
        """Return the topology from sysfs. Raises UnreadableTopologyError."""
        return read_topology(self._root).topology

    def mark(self) -> str:
        """Return the kernel's list of online CPUs; empty if unreadable."""
        try:
            return (self._root / SYSFS_CPU / "online").read_text()
        except OSError:
            return ""


class _TopologyReader:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self.assumptions: list[str] = []

    def read(self) -> TopologyReading:
        online = self._online()
        present = self._cpus(f"{SYSFS_CPU}/present")
        offline = (self._cpus(f"{SYSFS_CPU}/offline") or CpuSet()) - online
        if present is not None:  # the kernel's offline CPUs include those that are not plugged in
            offline &= present
        nodes = self._nodes(online)
        types = self._core_types() or self._arm_core_types(online)
        sockets = self._sockets(online)
        cores = self._cores(online, sockets, nodes)
        caches = self._l3s(cores, sockets)
        cpus = (
            Cpu(
                id=cpu,
                core=core,
                core_id=core_id,
                numa_node=nodes[cpu],
                socket=sockets[cpu],
                l3=caches.get(core),
                core_type=types.get(min(threads), CoreType.STANDARD),
            )
            for core, (core_id, threads) in enumerate(cores)
            for cpu in threads
        )
        topology = CpuTopology(
            cpus=tuple(sorted(cpus, key=lambda c: c.id)),
            offline=offline,
            isolated=(self._cpus(f"{SYSFS_CPU}/isolated") or CpuSet()) & (online | offline),
            memory_only_numa_nodes=self._memory_only(set(nodes.values())),
        )
        return TopologyReading(topology=topology, assumptions=tuple(self.assumptions), files=self.files)

    # --- sets of CPUs

    def _online(self) -> CpuSet:
        if online := self._cpus(f"{SYSFS_CPU}/online"):
            return online
        if listed := CpuSet(self._numbered(SYSFS_CPU, "cpu")):
            self._assume(listed, f"no {SYSFS_CPU}/online; all that have a folder are taken to be online")
            return listed
        numbers = CpuSet(
            self._integer(PROC_CPUINFO, value)
            for line in (self._text(PROC_CPUINFO) or "").splitlines()
            for key, _, value in [line.partition(":")]
            if key.strip() == "processor"
        )
        if numbers:
            self._assume(numbers, f"no {SYSFS_CPU}; taken from {PROC_CPUINFO}")
            return numbers
        raise UnreadableTopologyError(
            f"{self.root / SYSFS_CPU}: lists no CPU, nor does {self.root / PROC_CPUINFO}; check that sysfs is mounted"
        )

    # --- location of CPUs: sockets, NUMA nodes, cores, caches

    def _sockets(self, online: CpuSet) -> dict[int, int]:
        packages = {cpu: self._number(f"{SYSFS_CPU}/cpu{cpu}/topology/physical_package_id") for cpu in online}
        unknown = CpuSet(cpu for cpu, socket in packages.items() if socket is None or socket < 0)
        if unknown:  # some firmware reports -1
            self._assume(unknown, "the kernel names no socket; taken for socket 0")
        return {cpu: 0 if socket is None or socket < 0 else socket for cpu, socket in packages.items()}

    def _nodes(self, online: CpuSet) -> dict[int, int]:
        nodes: dict[int, int] = {}
        for node in self._numbered(SYSFS_NODE, "node"):
            for cpu in (self._cpus(f"{SYSFS_NODE}/node{node}/cpulist") or CpuSet()) & online:
                nodes.setdefault(cpu, node)
        if unknown := online - nodes.keys():
            default = min(nodes.values(), default=0)
            self._assume(unknown, f"on no NUMA node; taken for node {default}")
            nodes |= dict.fromkeys(unknown, default)
        return nodes

    def _memory_only(self, with_cpus: set[int]) -> tuple[int, ...]:
        with_memory = self._cpus(f"{SYSFS_NODE}/has_memory")
        nodes = self._numbered(SYSFS_NODE, "node")
        return tuple(n for n in nodes if n not in with_cpus and (with_memory is None or n in with_memory))

    def _cores(
        self, online: CpuSet, sockets: Mapping[int, int], nodes: Mapping[int, int]
    ) -> list[tuple[int, list[int]]]:
        """Return the cores socket by socket, each with its number in the kernel and its threads."""
        siblings = {cpu: self._siblings(cpu) for cpu in online}
        if unknown := CpuSet(cpu for cpu, threads in siblings.items() if threads is None):
            self._assume(unknown, "the kernel names no siblings; taken for cores of their own")
        cores: dict[CoreKey, list[int]] = {}
        for cpu, threads in siblings.items():
            # An offline sibling takes no process, so its core counts with the threads that are left.
            together = (threads or CpuSet()) & online | {cpu}
            fellows = CpuSet(t for t in together if (sockets[t], nodes[t]) == (sockets[cpu], nodes[cpu]))
            if apart := together - fellows:
                self._assume(CpuSet([cpu]), f"sibling of {apart} in another socket or NUMA node; taken for apart")
            cores.setdefault((sockets[cpu], nodes[cpu], min(fellows)), []).append(cpu)
        ordered = sorted(cores.items(), key=lambda item: (item[0][0], item[0][2]))
        numbers = [self._number(f"{SYSFS_CPU}/cpu{first}/topology/core_id") for (_, _, first), _ in ordered]
        named = [number if number is not None and number >= 0 else i for i, number in enumerate(numbers)]
        return [(number, threads) for number, (_, threads) in zip(named, ordered, strict=True)]

    def _siblings(self, cpu: int) -> CpuSet | None:
        for name in ("core_cpus_list", "thread_siblings_list"):
            if siblings := self._cpus(f"{SYSFS_CPU}/cpu{cpu}/topology/{name}"):
                return siblings
        return None

    def _l3s(self, cores: list[tuple[int, list[int]]], sockets: Mapping[int, int]) -> dict[int, int]:
        """Return the number of each core's L3 cache, counted socket by socket."""
        sharing: dict[int, tuple[int, CpuSet]] = {}
        for core, (_, threads) in enumerate(cores):
            first = min(threads)
            if sharing_cpus := self._shares_l3_with(first):
                sharing[core] = (sockets[first], sharing_cpus)
        if unknown := CpuSet(cpu for c, (_, threads) in enumerate(cores) if c not in sharing for cpu in threads):
            self._assume(unknown, "the kernel names no L3 cache; none is published")
        numbers: dict[tuple[int, CpuSet], int] = {}
        return {core: numbers.setdefault(cache, len(numbers)) for core, cache in sharing.items()}

    def _shares_l3_with(self, cpu: int) -> CpuSet | None:
        for index in range(MAX_CACHES):
            level = self._number(f"{SYSFS_CPU}/cpu{cpu}/cache/index{index}/level")
            if level is None:
                return None
            if level == 3:  # noqa: PLR2004 - the third level
                return self._cpus(f"{SYSFS_CPU}/cpu{cpu}/cache/index{index}/shared_cpu_list")
        return None

    def _core_types(self) -> dict[int, CoreType]:
        return {cpu: kind for path, kind in CORE_TYPES.items() for cpu in self._cpus(path) or ()}

    def _arm_core_types(self, online: CpuSet) -> dict[int, CoreType]:
        """Return the types of arm64 cores: models differ (big.LITTLE), and those with the least capacity are small.

        Capacities of one model differ as well, so they rank models and tell no cores of a model apart.
        """
        models = {cpu: self._core_model(cpu) for cpu in online} if self._core_model(min(online)) else {}
        capacities = {cpu: self._number(f"{SYSFS_CPU}/cpu{cpu}/cpu_capacity") for cpu in online}
        known = {cpu: capacity for cpu, capacity in capacities.items() if capacity is not None}
        if len(known) < len(online):
            if len(set(models.values())) > 1:
                self._assume(online, "cores of several models, and the kernel names no capacity; taken for alike")
            return {}
        small = {cpu for cpu, capacity in known.items() if capacity < SMALL_CORE * max(known.values())}
        kinds = {cpu: models.get(cpu) or f"small: {cpu in small}" for cpu in online}
        most = {kind: max(known[cpu] for cpu in online if kinds[cpu] == kind) for kind in set(kinds.values())}
        if len(set(most.values())) < 2:  # noqa: PLR2004 - nothing to tell apart
            return {}
        least = min(most.values())
        return {cpu: CoreType.EFFICIENCY if most[kinds[cpu]] == least else CoreType.PERFORMANCE for cpu in online}

    def _core_model(self, cpu: int) -> str | None:
        """Return implementer and part of an arm64 core, without variant and revision; None on other machines."""
        path = f"{SYSFS_CPU}/cpu{cpu}/regs/identification/midr_el1"
        if (text := self._text(path)) is None:
            return None
        try:
            register = int(text, 16)
        except ValueError:
            raise UnreadableTopologyError(f"{self.root / path}: {text.strip()!r} is no number") from None
        return f"{register >> 24 & 0xFF:#x} {register >> 4 & 0xFFF:#x}"

    # --- files

    def _assume(self, cpus: CpuSet, what: str) -> None:
        self.assumptions.append(f"CPUs {cpus}: {what}")

    def _numbered(self, folder: str, prefix: str) -> list[int]:
        names = (path.name.removeprefix(prefix) for path in self._listed(folder) if path.name.startswith(prefix))
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def _listed(self, folder: str) -> list[Path]:
        try:
            return list((self.root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnreadableTopologyError(f"{self.root / folder}: {error}") from error

    def _cpus(self, path: str) -> CpuSet | None:
        text = self._text(path)
        try:
            return None if text is None else parse(text)
        except MalformedCpuListError as error:
            raise UnreadableTopologyError(f"{self.root / path}: {error}") from None

    def _number(self, path: str) -> int | None:
        text = self._text(path)
        return None if text is None else self._integer(path, text)

    def _integer(self, path: str, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise UnreadableTopologyError(f"{self.root / path}: {text.strip()!r} is no number") from None

    def _text(self, path: str) -> str | None:
        try:
            text = (self.root / path).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadableTopologyError(f"{self.root / path}: {error}") from error
        self.files[path] = text
        return text
