"""Checks that no device was allocated twice, taken from a pod that used the device, or leaked.

The check replays every version that claims and pods ever had. The API server numbers all writes, those of claims and
those of pods, with one counter. So the versions from two watches have one order, and at each write it is known which
claim held a device and which pods used the claim.

Pure; shares nothing with the code that it judges.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from dra.model.meta import Key

DeviceName: TypeAlias = str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVersion:
    """A claim after one write."""

    revision: int
    key: Key
    uid: str
    devices: frozenset[DeviceName]
    """Devices of its allocation; empty without an allocation."""
    pods_listed: int = 0
    entries: int = 0
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVersion:
    """A pod after one write."""

    revision: int
    key: Key
    uid: str
    claims: tuple[str, ...]
    """Names of the claims that it references, in its namespace."""
    consuming: bool
    """Whether the pod is bound and has not finished."""
    deleted: bool = False


@dataclass(slots=True)
class SafetyVerdict:
    """The result of a check: violations, and counts of what was checked."""

    violations: list[str] = field(default_factory=list)
    writes: int = 0
    allocations: int = 0
    pods: int = 0
    """Pods that have used a claim."""
    max_list_length: int = 0


def check_safety(
    versions: Iterable[ClaimVersion | PodVersion], *, guarded: AbstractSet[Key] = frozenset()
) -> SafetyVerdict:
    """Replay a history and return its violations; the history must end after all work is done.

    A claim of ``guarded`` may keep its devices at the end, as long as its list has only a guard entry.
    """
    replay = _HistoryReplay(guarded)
    for version in sorted(versions, key=attrgetter("revision")):
        replay.verdict.writes += 1
        if isinstance(version, ClaimVersion):
            replay.observe_claim(version)
        else:
            replay.observe_pod(version)
    replay.finish()
    return replay.verdict


class _HistoryReplay:
    """The holders and users of devices at one revision of the history."""

    def __init__(self, guarded: AbstractSet[Key]) -> None:
        self.verdict = SafetyVerdict()
        self._guarded = guarded
        self._held: dict[DeviceName, str] = {}
        self._claims: dict[Key, ClaimVersion] = {}
        self._users: dict[Key, dict[str, PodVersion]] = {}
        self._served: set[str] = set()

    def observe_claim(self, now: ClaimVersion) -> None:
        before = self._claims.get(now.key)
        had = before.devices if before is not None else frozenset()
        has = frozenset[DeviceName]() if now.deleted else now.devices
        self.verdict.max_list_length = max(self.verdict.max_list_length, now.entries)
        if had and has != had and (users := self._users.get(now.key)):
            first = next(iter(users.values()))
            others = f" and {len(users) - 1} others" if len(users) > 1 else ""
            self._add_violation(now, f"taken from pod {_format_key(first.key)}{others}, which used it")
        for device in had - has:
            if before is not None and self._held.get(device) == before.uid:
                del self._held[device]
        if has and has != had:
            self.verdict.allocations += 1
        for device in sorted(has - had):
            holder = self._held.setdefault(device, now.uid)
            if holder != now.uid:
                self._add_violation(now, f"got device {device}, which another claim has (uid {holder})")
        if now.deleted:
            self._claims.pop(now.key, None)
        else:
            self._claims[now.key] = now

    def observe_pod(self, now: PodVersion) -> None:
        for name in now.claims:
            key = (now.key[0], name)
            users = self._users.setdefault(key, {})
            if now.deleted or not now.consuming:
                users.pop(now.uid, None)
                continue
            claim = self._claims.get(key)
            if now.uid not in users and (claim is None or not claim.devices):
                wrong = f"pod {_format_key(now.key)} was bound without an allocation of its claim {name}"
                self.verdict.violations.append(f"revision {now.revision}: {wrong}")
            users[now.uid] = now
            self._served.add(now.uid)

    def finish(self) -> None:
        self.verdict.pods = len(self._served)
        for key, claim in sorted(self._claims.items()):
            if key in self._guarded and (claim.entries, claim.pods_listed) == (1, 0):
                continue
            if claim.devices:
                self.verdict.violations.append(
                    f"claim {_format_key(key)}: still has {', '.join(sorted(claim.devices))}"
                )
            elif claim.entries:
                self.verdict.violations.append(
                    f"claim {_format_key(key)}: still has {claim.entries} entries in its list"
                )
        for users in self._users.values():
            self.verdict.violations += [f"pod {_format_key(pod.key)}: has not ended" for pod in users.values()]

    def _add_violation(self, claim: ClaimVersion, what: str) -> None:
        self.verdict.violations.append(f"revision {claim.revision}: claim {_format_key(claim.key)}: {what}")


def _format_key(key: Key) -> str:
    return "/".join(key)
