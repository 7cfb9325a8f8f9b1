"""Files of resctrl as machines show them: path below the root, content.

Sources: the kernel's documentation (Documentation/filesystems/resctrl.rst), and listings in public reports:
koordinator#216 (AMD, 16 caches), koordinator#1777 (AMD, two sockets with ids 0-7 and 16-23), opencontainers/runc#3550
(L2 only), ruyisdk/linux-xuantie-kernel#281 (a mask of zero).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Machine(NamedTuple):
    """A machine with resctrl."""

    files: Mapping[str, str]
    vendor: str = "GenuineIntel"
    options: str = "rw,relatime"


_INTEL = {
    "info/L3/cbm_mask": "3ff\n",
    "info/L3/min_cbm_bits": "1\n",
    "info/L3/num_closids": "16\n",
    "info/L3/shareable_bits": "300\n",
    "info/L3/bit_usage": "0=SSSSSSSSXX;1=SSSSSSSSXX\n",
    "info/MB/bandwidth_gran": "10\n",
    "info/MB/delay_linear": "1\n",
    "info/MB/min_bandwidth": "10\n",
    "info/MB/num_closids": "8\n",
    "info/L3_MON/num_rmids": "144\n",
    "info/last_cmd_status": "ok\n",
    "schemata": "    MB:0=100;1=100\n    L3:0=3ff;1=3ff\n",
    "mode": "shareable\n",
}

_INTEL_TWO_WAYS = {
    **_INTEL,
    "info/L3/cbm_mask": "7ff\n",
    "info/L3/min_cbm_bits": "2\n",
    "schemata": "    L3:0=7ff\n    MB:0=100\n",
    "info/MB/bandwidth_gran": "20\n",
    "info/MB/min_bandwidth": "20\n",
}

_CDP = {
    **{path: text for path, text in _INTEL.items() if not path.startswith("info/L3/")},
    **{
        f"info/{name}/{file}": text
        for name in ("L3CODE", "L3DATA")
        for file, text in (("cbm_mask", "fffff\n"), ("min_cbm_bits", "1\n"), ("num_closids", "8\n"))
    },
    "schemata": "    MB:0=100;1=100\nL3DATA:0=fffff;1=fffff\nL3CODE:0=fffff;1=fffff\n",
}

_AMD = {
    "info/L3/cbm_mask": "ffff\n",
    "info/L3/min_cbm_bits": "0\n",
    "info/L3/num_closids": "16\n",
    "info/MB/bandwidth_gran": "1\n",
    "info/MB/delay_linear": "1\n",
    "info/MB/min_bandwidth": "1\n",
    "info/MB/num_closids": "16\n",
    "info/SMBA/bandwidth_gran": "1\n",
    "info/SMBA/num_closids": "16\n",
    "info/last_cmd_status": "ok\n",
    "schemata": (
        "    L3:" + ";".join(f"{domain}=ffff" for domain in range(16)) + "\n"
        "    MB:" + ";".join(f"{domain}=2048" for domain in range(16)) + "\n"
        "  SMBA:" + ";".join(f"{domain}=2048" for domain in range(16)) + "\n"
    ),
    "mode": "shareable\n",
}

_SPARSE_IDS = (*range(8), *range(16, 24))

_AMD_SPARSE = {
    **{path: text for path, text in _AMD.items() if "SMBA" not in path},
    "schemata": (
        "    L3:" + ";".join(f"{domain}=ffff" for domain in _SPARSE_IDS) + "\n"
        "    MB:" + ";".join(f"{domain}=2048" for domain in _SPARSE_IDS) + "\n"
    ),
}

_MEGABYTES = {**_INTEL, "schemata": "    MB:0=4294967295;1=4294967295\n    L3:0=3ff;1=3ff\n"}

_CACHE_ONLY = {
    **{path: text for path, text in _INTEL.items() if not path.startswith("info/MB/")},
    "schemata": "L3:0=3ff;1=3ff\n",
}

_L2_ONLY = {
    "info/L2/cbm_mask": "ff\n",
    "info/L2/min_cbm_bits": "1\n",
    "info/L2/num_closids": "4\n",
    "info/last_cmd_status": "ok\n",
    "schemata": "L2:0=ff;1=ff\n",
    "mode": "shareable\n",
}

_ZERO_MASK = {**_CACHE_ONLY, "info/L3/cbm_mask": "0\n", "schemata": "L3:0=0\n"}

INTEL = Machine(_INTEL)
INTEL_TWO_WAYS = Machine(_INTEL_TWO_WAYS)
CDP = Machine(_CDP, options="rw,relatime,cdp")
AMD = Machine(_AMD, vendor="AuthenticAMD")
AMD_SPARSE = Machine(_AMD_SPARSE, vendor="AuthenticAMD")
MEGABYTES = Machine(_MEGABYTES, options="rw,relatime,mba_MBps")
CACHE_ONLY = Machine(_CACHE_ONLY)
L2_ONLY = Machine(_L2_ONLY)
ZERO_MASK = Machine(_ZERO_MASK)


def install(machine: Machine, folder: Path, *, mounted: bool = True, host_pids: bool = True) -> tuple[Path, Path]:
    """Write a machine's files to a folder; return the root of resctrl and the one of proc."""
    root, proc = folder / "resctrl", folder / "proc"
    for path, text in machine.files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "tasks").write_text("1\n2\n")
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to(f"pid:[{4026531836 if host_pids else 4026532501}]")
    (proc / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {machine.vendor}\ncpu family\t: 6\n")
    (proc / "filesystems").write_text("nodev\tsysfs\nnodev\tresctrl\n\text4\n")
    line = f"resctrl {root} resctrl {machine.options} 0 0\n" if mounted else ""
    (proc / "mounts").write_text(f"proc /proc proc rw 0 0\n{line}tmpfs /run tmpfs rw 0 0\n")
    return root, proc
