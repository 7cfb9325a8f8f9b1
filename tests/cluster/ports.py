"""Free loopback ports, for programs that want to be told their port on the command line."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from typing import Final

LOOPBACK: Final = "127.0.0.1"

CANDIDATES: Final = range(20_000, 32_768)
"""Below the ports that Linux gives to outgoing connections: no client takes one between our look and the bind.

Another run could; that is why the candidates are drawn at random and not counted up.
"""


def free(count: int) -> tuple[int, ...]:
    """Return `count` different ports on which nobody listens now."""
    with ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(CANDIDATES, len(CANDIDATES)):
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return tuple(ports)
    raise RuntimeError(f"{LOOPBACK}: fewer than {count} free ports from {CANDIDATES.start} to {CANDIDATES.stop}")
