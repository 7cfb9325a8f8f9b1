"""A view of the file system that a node has for itself, so that nothing it does there outlives it or reaches others.

containerd and the kubelet mount (sandboxes, root file systems, volumes), insist on folders such as /run/containerd and
/var/lib/kubelet/device-plugins whatever they are told, and set sysctls of the machine. So they run in a mount namespace
of their own: those folders are empty file systems in memory, the sysctls are plain files that say what the kubelet
wants to read. The kernel undoes all of it with the last process in there, in whichever way that one ends.

The rest is the machine's, above all the run folder: a socket or a CDI file there is the same one inside and outside.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder

HIDDEN: Final = ("/run", "/var/lib", "/var/log")
"""Where the kubelet and containerd write beside the folders they are given."""

SYSCTLS: Final = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What the kubelet sets unless it is so already: a kernel that stops at an oops is not the tests' to ask for."""

GRACE: Final = 2.0


class Enclosure:
    """A mount namespace, kept by one process that does nothing."""

    def __init__(self, folder: RunFolder) -> None:
        self._sysctls: Final = folder.path / "sysctls"
        self._entered: Final = folder.path / "enclosure.ready"
        command = ["unshare", "--mount", "--propagation=private", "sh", "-ec", self._script()]
        self.keeper: Final[Process] = folder.process("enclosure", command, ready=self._entered.exists, grace=GRACE)

    def start(self) -> None:
        """Return when programs can be started inside."""
        for name, value in SYSCTLS.items():
            file = self._sysctls / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n", encoding="ascii")
        self.keeper.start()

    def within(self, *command: str) -> Sequence[str]:
        """Return the command line that runs a program inside; nsenter becomes the program, so the pid is its own."""
        return ["nsenter", f"--mount=/proc/{self.keeper.pid}/ns/mnt", *command]

    def _script(self) -> str:
        lines = [f"mount -t tmpfs -o mode=755 enclosure {folder}" for folder in HIDDEN]
        lines += [f"mount --bind {shlex.quote(str(self._sysctls / name))} /proc/sys/{name}" for name in SYSCTLS]
        # As on a machine started by systemd: pods may ask for mounts that are passed on. Peers are only those inside.
        lines += ["mount --make-rshared /", f"touch {shlex.quote(str(self._entered))}", "exec sleep infinity"]
        return "\n".join(lines)
