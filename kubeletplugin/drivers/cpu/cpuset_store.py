"""What the hooks leave in the driver's folder, and what the enforcement remembers there.

============================================  ========================================================================
``hook.sh``                                   the hook's program, written anew at each start
``containers/CGROUP/CLAIM_UID.REQUEST``       a container owns the CPUs of a request; written by the hook
``failures/CGROUP``                           why a hook failed; written by the hook, read once
``demand.json``                               requests' CPUs, and those kept; there as long as a cgroup may be narrow
``kept``                                      the CPUs that the Node's annotation kept when it could last be read
============================================  ========================================================================

Elsewhere, among the CDI files: ``.DRIVER.narrowed``, an empty file that is there whenever ``demand.json`` is. Like
cgroups, the folder of CDI files does not survive a reboot, and stays when somebody removes the driver's folder to start
afresh: then cgroups are made wide again. Container runtimes read only files that end in ``.json`` or ``.yaml``.

Files that somebody removes are written again, for what they say is known: owners and demand are remembered, and stay in
force meanwhile. Only a plugin that is started without them has to do without them.

The demand is a file because there may be two plugins for a while (a rolling update): what one of them has prepared
the other must not hand back to everybody. It is written under the lock of the driver's folder, like the checkpoint from
which it follows, and read by whoever looks after the cgroups.
"""

import json
import logging
import os
from collections.abc import Container, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.model.meta import Struct, Uid
from kubeletplugin.atomic_files import write_atomically

log = logging.getLogger(__name__)

HOOK_FILE: Final = "hook.sh"
_CONTAINERS: Final = "containers"
_FAILURES: Final = "failures"
_DEMAND_FILE: Final = "demand.json"
_KEPT_FILE: Final = "kept"
_MAX_FAILURE_LENGTH: Final = 4096


def cpu_owner_name(claim: Uid, request: str) -> str:
    """Return the name under which a request of a claim owns CPUs."""
    return f"{claim}.{request}"


class CpusetDemand(Struct, frozen=True):
    """What is to be enforced."""

    requests: Mapping[str, CpuSet]
    """CPUs of the requests of claims, by `owner`; none: everybody has everything."""

    apart: CpuSet = NO_CPUS
    """CPUs that only requests get, as long as there are any: isolated ones, on which the kernel balances nothing."""

    kept: CpuSet = NO_CPUS
    """CPUs that the node keeps from all containers, but for requests that had them before."""

    @property
    def idle(self) -> bool:
        """Whether everybody may have everything."""
        return not (self.requests or self.kept)


class CpusetStore:
    """The driver's folder, as far as CPUs are concerned."""

    def __init__(self, folder: Path, *, mark: Path | None = None) -> None:
        """``mark``: the file that tells, outside of the folder, that cgroups may be narrow."""
        self.folder = folder
        self._mark = mark
        self.hook = folder / HOOK_FILE
        self._containers = folder / _CONTAINERS
        self._failures = folder / _FAILURES
        self._demand = folder / _DEMAND_FILE
        self._kept = folder / _KEPT_FILE
        self._seen: tuple[int, int] | None = None
        self._known: CpusetDemand | None = None
        self._owners: dict[str, frozenset[str]] = {}
        """Everything that hooks have recorded, but for containers that are gone."""

    def install(self) -> None:
        """Write the hook and make the folders; the caller has the lock of the folder, or is the first to use it."""
        for each in (self.folder, self._containers, self._failures):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = resources.files("kubeletplugin.drivers.cpu").joinpath(HOOK_FILE).read_bytes()
        write_atomically(self.hook, program, mode=0o755, sync=False)

    def restore(self, demand: CpusetDemand) -> list[Path]:
        """Write again what somebody removed, and return it; the caller has the lock of the folder. Raises OSError."""
        gone = [each for each in (self.hook, self._containers, self._failures) if not each.exists()]
        if gone:
            self.install()
        if not self._demand.exists():
            gone.append(self._demand)
            self.put_demand(demand)
        self._put_mark()
        if demand.kept and not self._kept.exists():
            gone.append(self._kept)
            self.put_kept(demand.kept)
        for container, owners in self._owners.items():
            for path in (self._containers / container / each for each in owners & demand.requests.keys()):
                if not path.exists():
                    gone.append(path)
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    path.write_text(f"{demand.requests[path.name]}\n", encoding="ascii")
        return gone

    def owners(self) -> dict[str, frozenset[str]]:
        """Return the owners of CPUs, container's cgroup → names of requests, until `forget`.

        A record that vanishes while its container runs was removed by somebody: nobody owns less than before.
        """
        for name in _list_names(self._containers):
            requests = frozenset(_list_names(self._containers / name))
            if requests:
                self._owners[name] = self._owners.get(name, frozenset()) | requests
        return dict(self._owners)

    def grown(self, owners: Mapping[str, frozenset[str]], *, look_into: Container[str]) -> bool:
        """Whether there are more owners than these; of containers that are among them, some are looked into."""
        return any(
            not owners.get(name, frozenset()).issuperset(_list_names(self._containers / name))
            for name in _list_names(self._containers)
            if name not in owners or name in look_into
        )

    def forget(self, container: str) -> None:
        """Remove what is known of a container that is gone."""
        self._owners.pop(container, None)
        folder = self._containers / container
        for name in _list_names(folder):
            (folder / name).unlink(missing_ok=True)
        try:
            folder.rmdir()
        except FileNotFoundError:
            return

    def failures(self) -> list[str]:
        """Return why hooks have failed, each time once."""
        found = []
        for name in _list_names(self._failures):
            path = self._failures / name
            found.append(path.read_bytes()[:_MAX_FAILURE_LENGTH].decode(errors="replace").strip())
            path.unlink(missing_ok=True)
        return found

    def demand(self) -> CpusetDemand | None:
        """Return what is to be enforced; None if all cgroups are as if there were no such driver.

        Only an idle demand is removed by a plugin: another one that vanishes was removed by somebody, and holds.
        """
        try:
            state = self._demand.stat()
        except FileNotFoundError:
            return None if self._known is None or self._known.idle else self._known
        seen = (state.st_ino, state.st_mtime_ns)
        if seen != self._seen:
            self._known = _read_demand(self._demand)
            self._seen = seen
        return self._known

    @property
    def narrowed(self) -> bool:
        """Whether cgroups may be narrow, whatever became of the demand."""
        return self._mark is not None and self._mark.exists()

    def put_demand(self, demand: CpusetDemand | None) -> None:
        """Remember a demand; the caller has the lock of the folder."""
        if demand is None:
            self._demand.unlink(missing_ok=True)
            if self._mark is not None:
                self._mark.unlink(missing_ok=True)  # last: while in doubt, cgroups are made wide once more
            self._seen, self._known = None, None
            return
        self._put_mark()
        requests = {name: str(cpus) for name, cpus in sorted(demand.requests.items())}
        body = {"version": 1, "requests": requests, "apart": str(demand.apart), "kept": str(demand.kept)}
        # Not synced: it need not survive a power cut, containers do not either.
        write_atomically(self._demand, json.dumps(body, indent=1).encode(), mode=0o600, sync=False)

    def _put_mark(self) -> None:
        if self._mark is not None and not self._mark.exists():
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.touch(mode=0o600)

    def kept(self) -> CpuSet:
        """Return the CPUs that the Node's annotation kept when it could last be read."""
        try:
            return parse(self._kept.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return NO_CPUS
        except (OSError, ValueError) as error:
            log.warning("%s: cannot be read (%r); only what the Node says now is kept", self._kept, error)
            return NO_CPUS

    def put_kept(self, cpus: CpuSet) -> None:
        """Remember them; raises OSError."""
        write_atomically(self._kept, f"{cpus}\n".encode(), mode=0o600, sync=True)


def _read_demand(path: Path) -> CpusetDemand | None:
    """Read a demand; one that cannot be read is none: the next call of the plugin, seconds later, writes it anew."""
    try:
        content = json.loads(path.read_bytes())
        requests = {name: parse(cpus) for name, cpus in content["requests"].items()}
        return CpusetDemand(requests=requests, apart=parse(content["apart"]), kept=parse(content.get("kept", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted, of thousands of files perhaps
    except (FileNotFoundError, NotADirectoryError):
        return []
