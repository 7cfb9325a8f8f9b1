"""The memory of a process, as the kernel counts it."""

from pathlib import Path


def memory(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process and its peak, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    parts = (line.partition(":") for line in lines)
    figures = {name: int(rest.split()[0]) / 1024 for name, _, rest in parts if "kB" in rest}
    return figures["VmRSS"], figures["VmHWM"]
