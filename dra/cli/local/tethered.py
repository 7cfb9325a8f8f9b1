"""``python -m dra.cli.local.tethered``: as ``dra-reserve``, until the one who started it is gone.

That one holds the other end of our standard input. However it ends, the system closes that end, and we end as well; so
a killed plane leaves no controller behind.
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
