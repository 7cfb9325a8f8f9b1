"""Free loopback ports, for programs that want to be told their port on the command line."""

from __future__ import annotations

import atexit
import random
import socket
from collections import deque
from contextlib import ExitStack
from typing import Final

LOOPBACK: Final = "127.0.0.1"

CANDIDATES: Final = range(20_000, 32_768)
"""Below the ports that Linux gives to outgoing connections: no client takes one between our look and the bind.

Another run could, which looks at the same time; that is why each port is reserved until its program has bound it.
"""

RESERVED: Final[deque[socket.socket]] = deque()
"""A socket for each of the newest ports: abstract Unix names exist once on a machine, and end with their process."""

MOST_RESERVED: Final = 64
"""Ports of one process whose programs may still be starting."""


def free(count: int) -> tuple[int, ...]:
    """Return `count` different ports on which nobody listens now, and which no other run on this machine is given."""
    with ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(CANDIDATES, len(CANDIDATES)):
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                probe.bind((LOOPBACK, port))
                _reserve(port)
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return tuple(ports)
    raise RuntimeError(f"{LOOPBACK}: fewer than {count} free ports from {CANDIDATES.start} to {CANDIDATES.stop}")


def _reserve(port: int) -> None:
    """Take the name that stands for a port; raise `OSError` while a process has it."""
    reservation = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        reservation.bind(f"\0dra-reserve/port/{port}")
    except OSError:
        reservation.close()
        raise
    RESERVED.append(reservation)
    while len(RESERVED) > MOST_RESERVED:
        RESERVED.popleft().close()


@atexit.register
def _release() -> None:
    while RESERVED:
        RESERVED.popleft().close()
