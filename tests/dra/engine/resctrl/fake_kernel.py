"""A resctrl filesystem in memory that refuses what the kernel refuses.

Rules, of fs/resctrl in Linux 6.18: a write ends with a line feed; a line names a resource that the group has, and
domains that exist, once each; a mask is within the machine's, has adjacent bits (AMD's may have gaps) and at least
min_cbm_bits, and overlaps no group in mode exclusive; bandwidth is within its limits and rounded up to the step; all of
a write or nothing is applied. Making a group takes a closid (ENOSPC) and gives all ways and no limit. A thread is in
exactly one group, children inherit the group of their parent; removing a group moves its threads to the root.
"""

import errno
from collections.abc import Iterable, Iterator

from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.tree import ControlGroup, ResctrlTree
from tests.dra.engine.resctrl.machines import Machine

ROOT = ""
WRITER = 999_999
"""The id of the thread that writes: what the id 0 stands for."""


class Killed(BaseException):
    """The process was killed before a write."""


class FakeKernel:
    """A machine with threads; offers what `ResctrlFiles` offers."""

    def __init__(self, machine: Machine, *, kill_at: int | None = None) -> None:
        self.machine = machine
        self.groups: dict[str, dict[str, dict[int, int]]] = {ROOT: _numbers(machine.files["schemata"])}
        self.defaults = {name: dict(domains) for name, domains in self.groups[ROOT].items()}
        self.modes: dict[str, str] = {}
        self.threads: dict[int, str] = {WRITER: ROOT}
        self.host_pids = True
        self.mounted = True
        self.status = ""
        self.writes: list[str] = []
        self.kill_at = kill_at
        self.forks: Iterator[tuple[int, int]] = iter(())
        """Threads (parent, child) that are created before each look at the threads, one by one."""

    # what ResctrlFiles offers

    def sees_host_pids(self) -> bool:
        return self.host_pids

    def last_status(self) -> str:
        return self.status

    def read_tree(self) -> ResctrlTree:
        if not self.mounted:
            return ResctrlTree(supported=True, vendor=self.machine.vendor)
        ours = {group: self._read(group) for group in ResctrlGroup if group in self.groups}
        foreign = tuple(sorted(name for name in self.groups if name != ROOT and name not in ours))
        return ResctrlTree(
            mounted=True,
            supported=True,
            mount_options=tuple(self.machine.options.split(",")),
            vendor=self.machine.vendor,
            info=self.info(),
            root_schemata=self._print(ROOT),
            groups=ours,
            foreign_groups=foreign,
            foreign_tasks=frozenset(task for task, group in self.threads.items() if group in foreign),
        )

    def make_group(self, group: str) -> None:
        self._write(f"mkdir {group}")
        if group in self.groups:
            return
        if len(self.groups) >= self.closids():
            self._refuse(errno.ENOSPC, "Out of CLOSIDs")
        self.groups[group] = {name: dict(domains) for name, domains in self.defaults.items()}

    def write_line(self, group: str, line: str) -> None:
        self._write(f"{group} {line.strip()}")
        if group not in self.groups:
            self._refuse(errno.ENOENT, "")
        if not line.endswith("\n"):
            self._refuse(errno.EINVAL, "no line feed")
        staged = {}
        for text in line.splitlines():
            name, _, rest = text.partition(":")
            name = name.strip()
            if name not in self.groups[group]:
                self._refuse(errno.EINVAL, f"Unknown or unsupported resource name '{name}'")
            staged[name] = self._parse(group, name, rest)
        for name, domains in staged.items():
            self.groups[group][name] |= domains

    def move_tasks(self, group: str, tasks: Iterable[int]) -> int:
        moved = 0
        for task in tasks:
            self._write(f"{group} task {task}")
            if group not in self.groups:
                self._refuse(errno.ENOENT, "")
            if task == 0:
                self.threads[WRITER] = group
            if task in self.threads:
                self.threads[task] = group
                moved += 1
        return moved

    # what happens to a machine

    def fork(self, parent: int, child: int) -> None:
        self.threads[child] = self.threads[parent]

    def exit(self, task: int) -> None:
        del self.threads[task]

    def remove_group(self, group: str) -> None:
        del self.groups[group]
        self.threads = {task: ROOT if now == group else now for task, now in self.threads.items()}

    def remount(self) -> None:
        """Unmount and mount: all groups are gone, all threads in the root, which has its defaults."""
        self.groups = {ROOT: {name: dict(domains) for name, domains in self.defaults.items()}}
        self.threads = dict.fromkeys(self.threads, ROOT)

    def tasks(self, group: str) -> set[int]:
        return {task for task, now in self.threads.items() if now == group}

    def closids(self) -> int:
        return min(int(files["num_closids"]) for files in self.info().values() if "num_closids" in files)

    def info(self) -> dict[str, dict[str, str]]:
        info: dict[str, dict[str, str]] = {}
        for path, text in self.machine.files.items():
            match path.split("/"):
                case ["info", name, file]:
                    info.setdefault(name, {})[file] = text.strip()
        return info

    def _read(self, group: str) -> ControlGroup:
        mode = self.modes.get(group, "shareable")
        return ControlGroup(schemata=self._print(group), tasks=frozenset(self.tasks(group)), mode=mode)

    def _print(self, group: str) -> str:
        if self.modes.get(group) == "pseudo-locksetup":
            return "L3:uninitialized\n"
        return "".join(f"{name:>6}:{self._print_domains(name, at)}\n" for name, at in self.groups[group].items())

    def _print_domains(self, name: str, domains: dict[int, int]) -> str:
        if name in ("MB", "SMBA"):
            width = len(str(max(self.defaults[name].values())))
            return ";".join(f"{domain}={number:>{width}}" for domain, number in domains.items())
        width = len(f"{max(self.defaults[name].values()):x}")
        return ";".join(f"{domain}={number:0{width}x}" for domain, number in domains.items())

    def _parse(self, group: str, name: str, text: str) -> dict[int, int]:
        if not text:
            self._refuse(errno.EINVAL, f"Missing '{name}' value")
        domains: dict[int, int] = {}
        for part in filter(None, text.split(";")):
            domain, _, number = part.partition("=")
            if not domain.isdigit() or int(domain) not in self.defaults[name]:
                self._refuse(errno.EINVAL, "Missing '=' or non-numeric domain")
            if int(domain) in domains:
                self._refuse(errno.EINVAL, f"Duplicate domain {domain}")
            check = self._check_bandwidth if name in ("MB", "SMBA") else self._check_mask
            domains[int(domain)] = check(group, name, number.strip())
        return domains

    def _check_mask(self, group: str, name: str, text: str) -> int:
        full = int(self.info()[name]["cbm_mask"], 16)
        least = int(self.info()[name]["min_cbm_bits"])
        mask = int(text, 16)
        if (least > 0 and mask == 0) or mask > full:
            self._refuse(errno.EINVAL, "Mask out of range")
        if mask and (mask // (mask & -mask) + 1).bit_count() != 1 and self.machine.vendor != "AuthenticAMD":
            self._refuse(errno.EINVAL, f"The mask {mask:x} has non-consecutive 1-bits")
        if mask.bit_count() < least:
            self._refuse(errno.EINVAL, f"Need at least {least} bits in the mask")
        for other, mode in self.modes.items():
            if mode == "exclusive" and other != group and any(mask & own for own in self.groups[other][name].values()):
                self._refuse(errno.EINVAL, "Overlaps with exclusive group")
        return mask

    def _check_bandwidth(self, group: str, name: str, text: str) -> int:  # noqa: ARG002 - as _check_mask
        number, most = int(text), max(self.defaults[name].values())
        if "mba_MBps" in self.machine.options:
            return number
        info = self.info()[name]
        if not int(info["min_bandwidth"]) <= number <= most:
            self._refuse(errno.EINVAL, f"MB value {number} out of range [{info['min_bandwidth']},{most}]")
        step = int(info["bandwidth_gran"])
        return -(-number // step) * step

    def _write(self, what: str) -> None:
        if self.kill_at is not None:
            if self.kill_at == 0:
                raise Killed
            self.kill_at -= 1
        self.status = ""
        self.writes.append(what)

    def _refuse(self, number: int, status: str) -> None:
        self.status = status
        raise OSError(number, status)


def _numbers(text: str) -> dict[str, dict[int, int]]:
    lines = (line.strip().partition(":") for line in text.splitlines())
    return {
        name: {
            int(domain): int(number, 10 if name in ("MB", "SMBA") else 16)
            for domain, _, number in (part.partition("=") for part in rest.split(";"))
        }
        for name, _, rest in lines
    }
