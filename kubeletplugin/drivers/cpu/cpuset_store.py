"""The driver's directory: stores the owner records of the hooks and the state of the cpuset enforcement.

============================================  ========================================================================
``hook.sh``                                   the hook's program, rewritten at each start
``containers/CGROUP/CLAIM_UID.REQUEST``       a container owns the CPUs of a request; written by the hook. CGROUP is the
                                              name of the container's cgroup, below that of its pod
``failures/CGROUP``                           why a hook failed; written by the hook, read once
``refused/CLAIM_UID``                         why no further container of a claim may start; read by the hook
``demand.json``                               requests' CPUs and reserved CPUs; exists while a cgroup may be narrow
``kept``                                      the CPUs that the Node's annotation reserved when it was last readable
============================================  ========================================================================

The CDI spec directory has one more file: ``.DRIVER.narrowed``, which exists whenever ``demand.json`` does. It has the
CPUs that pods lost while these were offline (cgroup v1), which no component but the plugin gives back; or nothing.
Like cgroups, that directory does not survive a reboot, and it stays when an administrator removes the driver's
directory to start afresh: then cgroups are widened again. Container runtimes read only files that end in ``.json`` or
``.yaml``.

Files that are removed while the plugin runs are written again from memory; owners and demand stay in force meanwhile.
Only a plugin that starts without the files lacks their content.

The demand is a file because two instances of the plugin may run for a while (a rolling update): one must not return the
CPUs that the other has prepared to the shared pool. The demand is written under the lock of the driver's directory,
like the checkpoint from which it is derived, and read by each instance that reconciles the cgroups.
"""

import contextlib
import json
import logging
import os
from collections.abc import Container, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.model.meta import Struct, Uid
from kubeletplugin.atomic_files import read_durably, write_atomically

log = logging.getLogger(__name__)

HOOK_FILE: Final = "hook.sh"
_CONTAINERS: Final = "containers"
_FAILURES: Final = "failures"
_REFUSED: Final = "refused"
_DEMAND_FILE: Final = "demand.json"
_KEPT_FILE: Final = "kept"
_MAX_FAILURE_LENGTH: Final = 4096


def cpu_owner_name(claim: Uid, request: str) -> str:
    """Return the owner name of a claim's request, under which it owns CPUs."""
    return f"{claim}.{request}"


class CpuPools(Struct, frozen=True):
    """The CPUs of containers that own none."""

    shared: CpuSet
    best_effort: CpuSet
    """CPUs of containers of the QoS class BestEffort: the shared ones and those that requests share with the class, or
    those of them that the class is limited to."""


class CpusetDemand(Struct, frozen=True):
    """The cpusets to enforce on this node."""

    requests: Mapping[str, CpuSet]
    """CPUs of claims' requests, by `cpu_owner_name`; empty if no container owns CPUs."""

    apart: CpuSet = NO_CPUS
    """Isolated CPUs, on which the kernel does not balance load; only requests get them while there are requests."""

    kept: CpuSet = NO_CPUS
    """CPUs that the Node reserves from all containers, except requests that had them before."""

    best_effort: CpuSet = NO_CPUS
    """CPUs of requests on which containers of the QoS class BestEffort may run, too."""

    best_effort_limit: CpuSet = NO_CPUS
    """The only CPUs that containers of the QoS class BestEffort may use, while the class is held back; none: all.
    Earlier builds, which may run beside this one, do not know the limit."""

    @property
    def idle(self) -> bool:
        """Whether all containers may use all CPUs."""
        return not (self.requests or self.kept or self.best_effort_limit)

    def pools(self, machine: CpuSet) -> CpuPools:
        """Return the pools on a machine with these CPUs; they are empty if requests have all CPUs.

        If the node keeps all other CPUs, containers run on these all the same; likewise the class BestEffort, if claims
        have got all CPUs that it is limited to.
        """
        left = machine - CpuSet(cpu for cpus in self.requests.values() for cpu in cpus)
        apart = self.apart if self.requests else NO_CPUS
        shared = (left - apart - self.kept) or (left - self.kept) or left
        best_effort = shared | ((self.best_effort & machine) - apart - self.kept)
        return CpuPools(shared=shared, best_effort=(best_effort & self.best_effort_limit) or best_effort)


class CpusetStore:
    """The store of cpuset state in the driver's directory."""

    def __init__(self, folder: Path, *, mark: Path | None = None) -> None:
        """Create a store; only the mark is read.

        ``mark`` is the file outside of the directory that shows that cgroups may be narrow.
        """
        self.folder = folder
        self._mark = mark
        self.hook = folder / HOOK_FILE
        self._containers = folder / _CONTAINERS
        self._failures = folder / _FAILURES
        self._refused = folder / _REFUSED
        self._refusals: Mapping[Uid, str] | None = None
        self._demand = folder / _DEMAND_FILE
        self._kept = folder / _KEPT_FILE
        self._lost = self.lost_cpus()
        self._seen: tuple[int, int] | None = None
        self._known: CpusetDemand | None = None
        self._owners: dict[str, frozenset[str]] = {}
        """All owners that hooks have recorded, except those of containers that are gone."""

    def install(self) -> None:
        """Write the hook and create the directories; the caller has the directory's lock, or is its first user."""
        for folder in (self.folder, self._containers, self._failures):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = resources.files("kubeletplugin.drivers.cpu").joinpath(HOOK_FILE).read_bytes()
        write_atomically(self.hook, program, mode=0o755, sync=False)

    def restore(self, demand: CpusetDemand) -> list[Path]:
        """Write removed files again and return their paths; the caller has the directory's lock. Raises OSError."""
        gone = [expected for expected in (self.hook, self._containers, self._failures) if not expected.exists()]
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
            for path in (self._containers / container / owner for owner in owners & demand.requests.keys()):
                if not path.exists():
                    gone.append(path)
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    path.write_text(f"{demand.requests[path.name]}\n", encoding="ascii")
        return gone

    def owners(self) -> dict[str, frozenset[str]]:
        """Return the owners of CPUs: the name of a container's cgroup → owner names of requests.

        Owners accumulate until `forget`: a record that vanishes while its container runs was removed by mistake and
        stays in force.
        """
        for name in _list_names(self._containers):
            requests = frozenset(_list_names(self._containers / name))
            if requests:
                self._owners[name] = self._owners.get(name, frozenset()) | requests
        return dict(self._owners)

    def has_new_owners(self, owners: Mapping[str, frozenset[str]], *, look_into: Container[str]) -> bool:
        """Report whether hooks have recorded more owners than these.

        Containers that are among these are read only if `look_into` contains them.
        """
        return any(
            not owners.get(name, frozenset()).issuperset(_list_names(self._containers / name))
            for name in _list_names(self._containers)
            if name not in owners or name in look_into
        )

    def forget(self, container: str) -> None:
        """Remove the owner records of a container that is gone."""
        self._owners.pop(container, None)
        folder = self._containers / container
        for name in _list_names(folder):
            (folder / name).unlink(missing_ok=True)
        try:
            folder.rmdir()
        except FileNotFoundError:
            return

    def failures(self) -> list[str]:
        """Return the failure messages of hooks, each once, and remove their files."""
        texts = []
        for name in _list_names(self._failures):
            path = self._failures / name
            texts.append(path.read_bytes()[:_MAX_FAILURE_LENGTH].decode(errors="replace").strip())
            path.unlink(missing_ok=True)
        return texts

    def put_refusals(self, refusals: Mapping[Uid, str]) -> None:
        """Save the claims whose containers must not start, each with the reason; raises OSError."""
        if refusals == self._refusals:
            return
        self._refusals = None  # until all are saved: after a failure nobody knows which are
        for name in set(_list_names(self._refused)) - refusals.keys():
            (self._refused / name).unlink(missing_ok=True)
        for uid, reason in refusals.items():
            self._refused.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._refused / uid, f"{reason}\n".encode(), mode=0o600, sync=False)
        self._refusals = dict(refusals)

    def demand(self) -> CpusetDemand | None:
        """Return the demand to enforce; None if all cgroups are in the state without this driver.

        The plugin removes only an idle demand: any other demand whose file vanishes was removed by mistake and stays in
        force.
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
        """Whether cgroups may be narrow, even if the demand was removed."""
        return self._mark is not None and self._mark.exists()

    def put_demand(self, demand: CpusetDemand | None) -> None:
        """Save a demand, or remove the saved one (None); the caller has the lock of the directory."""
        if demand is None:
            self._demand.unlink(missing_ok=True)
            if self._mark is not None:
                self._mark.unlink(missing_ok=True)  # last: in doubt, cgroups are widened once more
            self._seen, self._known, self._lost = None, None, NO_CPUS
            return
        self._put_mark()
        requests = {name: str(cpus) for name, cpus in sorted(demand.requests.items())}
        body = {"version": 1, "requests": requests, "apart": str(demand.apart), "kept": str(demand.kept)}
        if demand.best_effort:
            body["bestEffort"] = str(demand.best_effort)
        if demand.best_effort_limit:
            body["bestEffortLimit"] = str(demand.best_effort_limit)
        # Not synced: a power cut ends the containers, too.
        write_atomically(self._demand, json.dumps(body, indent=1).encode(), mode=0o600, sync=False)

    def _put_mark(self) -> None:
        if self._mark is not None and not self._mark.exists():
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.touch(mode=0o600)

    def lost_cpus(self) -> CpuSet:
        """Return the CPUs that pods lost while these were offline, as recorded since the node was started."""
        try:
            return parse(self._mark.read_text(encoding="ascii")) if self._mark is not None else NO_CPUS
        except (OSError, ValueError):
            return NO_CPUS

    def put_lost_cpus(self, cpus: CpuSet) -> None:
        """Record the CPUs that pods lost while these were offline, as long as there is a demand."""
        if self._mark is None or cpus == self._lost or not self._mark.exists():
            return
        with contextlib.suppress(OSError):  # without the record, only a restart of the plugin forgets these CPUs
            write_atomically(self._mark, f"{cpus}\n".encode(), mode=0o600, sync=False)
            self._lost = cpus

    def kept(self) -> CpuSet:
        """Return the CPUs that the Node's annotation reserved when it was last readable."""
        try:
            return parse(read_durably(self._kept).decode("ascii").strip())
        except FileNotFoundError:
            return NO_CPUS
        except (OSError, ValueError) as error:
            log.warning("%s: cannot be read (%r); only the Node's present annotation is in effect", self._kept, error)
            return NO_CPUS

    def put_kept(self, cpus: CpuSet) -> None:
        """Save the CPUs that the Node's annotation reserves; raises OSError."""
        write_atomically(self._kept, f"{cpus}\n".encode(), mode=0o600, sync=True)


def _read_demand(path: Path) -> CpusetDemand | None:
    """Return the saved demand; None if it cannot be read: the plugin rewrites it seconds later."""
    try:
        content = json.loads(path.read_bytes())
        requests = {name: parse(cpus) for name, cpus in content["requests"].items()}
        return CpusetDemand(
            requests=requests,
            apart=parse(content["apart"]),
            kept=parse(content.get("kept", "")),
            best_effort=parse(content.get("bestEffort", "")),
            best_effort_limit=parse(content.get("bestEffortLimit", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted, of thousands of files perhaps
    except (FileNotFoundError, NotADirectoryError):
        return []
