"""Machines of equal parts."""

from collections.abc import Iterable

from dra.engine.cpus.topology import Cpu, CpuTopology


def uniform_topology(*, sockets: int = 1, nodes: int = 1, cores: int, threads: int = 1) -> CpuTopology:
    """Return a machine of equal parts: `nodes` NUMA nodes a socket, `cores` a NUMA node, `threads` a core.

    CPUs are numbered core by core; each NUMA node has one L3 cache.
    """
    return CpuTopology(cpus=tuple(_uniform_cpus(sockets * nodes, per_socket=nodes, cores=cores, threads=threads)))


def _uniform_cpus(all_nodes: int, *, per_socket: int, cores: int, threads: int) -> Iterable[Cpu]:
    for core in range(all_nodes * cores):
        node = core // cores
        socket = node // per_socket
        for thread in range(threads):
            yield Cpu(
                id=core * threads + thread,
                core=core,
                core_id=core - socket * per_socket * cores,
                numa_node=node,
                socket=socket,
                l3=node,
            )
