"""What a process grows by when it evaluates an expression that loses memory: ``python -m tests.dra.cel.leaking``.

The memory is lost for good, so the process is another one than that of the tests. Reads expressions as a JSON array
from the standard input, and prints one of pairs: the bytes that an evaluation made the process grow by, and those that
are counted.
"""

import json
import sys
from pathlib import Path
from typing import Final

from dra.cel import memory_leaks
from dra.cel.device_selectors import CompiledSelector

TIMES: Final = 4_000
PAGE: Final = 4096


def memory() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def measured(expression: str) -> tuple[float, float]:
    """Return what this process has grown by, and what is counted, for each evaluation."""
    selector, device = CompiledSelector(expression), {"driver": "d", "attributes": {}, "capacity": {}}
    for _ in range(100):
        assert selector.evaluate(device)
    grown, lost = memory(), memory_leaks.leaked_bytes()
    for _ in range(TIMES):
        selector.evaluate(device)
    return (memory() - grown) / TIMES, (memory_leaks.leaked_bytes() - lost) / TIMES


if __name__ == "__main__":
    json.dump([measured(expression) for expression in json.load(sys.stdin)], sys.stdout)
