"""Our programs, as they are in this tree, without their start: what a page calls is a fork of one that has begun.

A page calls `kubectl dra` a dozen times, and nine tenths of each call are Python's imports. So the programs that are
put on PATH send their arguments, environment and streams to a process that has imported everything and forks for each.
"""

import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = {"dra-reserve": ("dra.cli.main", "dra-reserve"), "kubectl-dra": ("dra.cli.kubectl.main", "kubectl dra")}
PRELOADED = ("dra.model", "dra.api", "dra.engine", "dra.kube", "dra.cli.kubectl")

_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    call = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(call)
    code = server.recv(1)
os._exit(code[0] if code else 70)
"""


@contextmanager
def programs(folder):
    """Serve our programs; yields the folder that PATH needs."""
    folder.mkdir(parents=True)
    address = str(folder / "calls")
    for name in PROGRAMS:
        script = folder / name
        script.write_text(_CLIENT.format(python=sys.executable, address=address, name=name))
        script.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.pages.serving", str(listening.fileno())],
            cwd=ROOT,
            pass_fds=[listening.fileno()],
        )
        try:
            yield folder
        finally:
            server.terminate()
            server.wait(timeout=10)


def main():
    """Import, then fork for each call."""
    listening = socket.socket(fileno=int(sys.argv[1]))
    for package in map(importlib.import_module, (*PRELOADED, *(module for module, _ in PROGRAMS.values()))):
        for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
            importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        call, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            _answer(call)
        call.close()


def _answer(call):
    """Be the program that is called; never returns."""
    length, streams, _, _ = socket.recv_fds(call, 4, 3)
    with call.makefile("rb") as words:
        name, arguments, folder, environment = json.loads(words.read(int.from_bytes(length, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    threading.Thread(target=_end_with, args=[call], daemon=True).start()
    module, called = PROGRAMS[name]
    code = 1
    try:
        importlib.import_module(module).main(prog_name=called)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 what Python does at the end of a program
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        with suppress(OSError):
            call.sendall(bytes([code]))
        os._exit(code)


def _end_with(call):
    """End when the one who called has: it was interrupted."""
    if not call.recv(1):
        os._exit(130)


if __name__ == "__main__":
    main()
