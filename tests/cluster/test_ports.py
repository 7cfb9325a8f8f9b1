"""Free ports: one run is given none that another run on this machine is about to bind."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests.cluster import ports

OTHER_RUN: Final = """
from tests.cluster import ports
ports.random.sample = lambda candidates, _: candidates
print(*ports.free(3), flush=True)
input()
"""


def test_two_runs_that_look_at_the_same_ports_are_given_different_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    other = [sys.executable, "-c", OTHER_RUN]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        theirs = {int(port) for port in run.stdout.readline().split()}
        monkeypatch.setattr(ports.random, "sample", lambda candidates, _: candidates)
        ours = set(ports.free(3))
        run.communicate("\n")
    assert len(theirs) == len(ours) == 3
    assert not theirs & ours


def test_the_newest_ports_stay_reserved_and_the_oldest_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "MOST_RESERVED", 2)
    given = [ports.free(1)[0] for _ in range(3)]
    names = [reservation.getsockname() for reservation in ports.RESERVED]
    assert names == [f"\0dra-reserve/port/{port}".encode() for port in given[1:]]


def test_a_run_ends_without_an_open_socket() -> None:
    command = [sys.executable, "-W", "error", "-c", "from tests.cluster import ports; ports.free(3)"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not run.stderr
