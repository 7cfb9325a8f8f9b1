"""Machines as short texts, and the sysfs they would have.

A machine is a YAML file: its `blocks` are cores that share socket, NUMA node, L3 cache and type; `threads` has one
list of CPUs for each thread of the cores, in the order of `cores`. `without` leaves out what some kernels do not have.
`files` are written as they are, over the rest.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dra.engine.cpus.cpusets import CpuSet, parse

MACHINES = Path(__file__).with_name("machines")
TYPES = {"performance": "cpu_core", "efficiency": "cpu_atom"}
CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((MACHINES / f"{name}.yaml").read_text())


def names() -> list[str]:
    return sorted(path.stem for path in MACHINES.glob("*.yaml"))


def write(files: Mapping[str, str], root: Path) -> Path:
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def build(machine: Mapping[str, Any], root: Path) -> Path:
    return write(files_of(machine), root)


def files_of(machine: Mapping[str, Any]) -> dict[str, str]:
    files: dict[str, str] = {}
    nodes: defaultdict[int, set[int]] = defaultdict(set, {n: set() for n in machine.get("memory_only", ())})
    caches: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    types: defaultdict[str, set[int]] = defaultdict(set)
    online: set[int] = set()
    offline = parse(machine.get("offline", ""))
    for block in machine.get("blocks", ()):
        threads = [list(parse(str(cpus))) for cpus in block["threads"]]
        for i, core in enumerate(parse(str(block["cores"]))):
            siblings = CpuSet(thread[i] for thread in threads) - offline
            for cpu in siblings:
                folder = f"{CPU}/cpu{cpu}/topology"
                files[f"{folder}/physical_package_id"] = f"{block['socket']}\n"
                files[f"{folder}/core_id"] = f"{core}\n"
                files[f"{folder}/core_cpus_list"] = f"{siblings}\n"
            online |= siblings
            nodes[block["node"]] |= siblings
            if "l3" in block:
                caches[block["socket"], block["l3"]] |= siblings
            if "type" in block:
                types[block["type"]] |= siblings
    for cpus in caches.values():
        for cpu in cpus:
            for index, (level, shared) in enumerate(((1, [cpu]), (1, [cpu]), (2, [cpu]), (3, cpus))):
                files[f"{CPU}/cpu{cpu}/cache/index{index}/level"] = f"{level}\n"
                files[f"{CPU}/cpu{cpu}/cache/index{index}/shared_cpu_list"] = f"{CpuSet(shared)}\n"
    files |= {f"{NODE}/node{node}/cpulist": f"{CpuSet(cpus)}\n" for node, cpus in nodes.items()}
    files |= {f"sys/devices/{TYPES[kind]}/cpus": f"{CpuSet(cpus)}\n" for kind, cpus in types.items()}
    files |= {f"{NODE}/has_memory": f"{CpuSet(nodes)}\n", f"{CPU}/online": f"{CpuSet(online)}\n"}
    files |= {f"{CPU}/present": f"{machine.get('present', CpuSet(online) | offline)}\n"}
    files |= {f"{CPU}/{name}": f"{machine.get(name, '')}\n" for name in ("offline", "isolated")}
    for left_out in machine.get("without", ()):
        files = {path: text for path, text in files.items() if left_out not in path}
    return files | machine.get("files", {})
