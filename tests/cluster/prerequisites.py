"""What a real node needs of the machine, beside what is built from Go modules: said before anything is started."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.cluster import images, keeper

_PATH: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
"""runc is a daemon's helper: not every shell's PATH has the folder it is in."""


def runc() -> Path | None:
    """Return runc, None when it is not installed."""
    return _program("runc")


def busybox() -> Path | None:
    """Return a busybox that needs no libraries, None when there is none."""
    found = _program("busybox")
    return found if found is not None and images.is_static(found) else None


def missing() -> list[str]:
    """Return what keeps a real node from running on this machine, each with the way to it; empty when it can."""
    tools = [name for name in ("unshare", "nsenter", "mount") if _program(name) is None]
    checks = {
        "root (namespaces, cgroups and mounts are the kubelet's work)": os.geteuid() == 0,
        f"{', '.join(tools)} (Debian: util-linux, mount)": not tools,
        "mount namespaces (in a container: one that may mount, such as a privileged one)": bool(tools) or may_mount(),
        "runc (Debian: apt-get install runc)": runc() is not None,
        "a static busybox (Debian: apt-get install busybox-static)": busybox() is not None,
        f"cgroups below {keeper.CGROUPS} that can be written": all(
            os.access(each, os.W_OK) for each in keeper.hierarchies() or [keeper.CGROUPS]
        ),
    }
    return [what for what, there in checks.items() if not there]


@cache
def may_mount() -> bool:
    """Tell whether a namespace can be made, and mounted in; a container's root often may not."""
    attempt = ("unshare", "--mount", "--", "mount", "-t", "tmpfs", "tmpfs", "/mnt")
    return subprocess.run(attempt, env={"PATH": _PATH}, capture_output=True, check=False).returncode == 0


def _program(name: str) -> Path | None:
    found = shutil.which(name, path=_PATH)
    return Path(found) if found else None
