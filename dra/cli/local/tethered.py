"""Runs ``dra-reserve`` until its parent process ends: ``python -m dra.cli.local.tethered``.

The parent holds the other end of standard input. However the parent ends, the operating system closes that end, and
this process ends as well; so a killed plane leaves no controller behind.
"""

import os
import signal
import sys
import threading

from dra.cli.main import main


def _terminate_with_parent() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_terminate_with_parent, daemon=True).start()
    main(prog_name="dra-reserve")
