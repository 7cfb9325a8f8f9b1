"""Our command on a machine whose time of day is ten minutes ahead.

    python ahead.py descheduler --kubeconfig=...

What is due minutes after an object's creation is due at once.
"""

from __future__ import annotations

import time
from typing import Final

from dra.cli.main import main

AHEAD: Final = 600.0

_time, _time_ns = time.time, time.time_ns


if __name__ == "__main__":
    time.time = lambda: _time() + AHEAD
    time.time_ns = lambda: _time_ns() + int(AHEAD * 1e9)
    main()
