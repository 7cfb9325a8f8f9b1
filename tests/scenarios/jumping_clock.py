"""Our command on a machine whose time of day jumps by an hour, forth and back, every second.

    python jumping_clock.py controller --kubeconfig=...

As NTP, a resumed machine or a person at the keyboard would do it; the monotonic clock goes on undisturbed, as on real
machines. A run that must not care about the time of day must not notice.
"""

from __future__ import annotations

import time
from typing import Final

from dra.cli.main import main

HOUR: Final = 3600.0

_time, _time_ns = time.time, time.time_ns


def _offset() -> float:
    return HOUR if int(time.monotonic()) % 2 else -HOUR


if __name__ == "__main__":
    time.time = lambda: _time() + _offset()
    time.time_ns = lambda: _time_ns() + int(_offset() * 1e9)
    main()
