"""What a script has made so far, as far as the script itself can tell.

Used only to prefer operations that have an object. It knows nothing of what controllers do, and need not: an operation
without an object is one that both servers refuse.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Final

from tests.scenarios.differential import operations as ops
from tests.scenarios.differential.operations import Want, Way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.differential.operations import Claim, Operation, Round

LONG: Final = "a-pod-that-somebody-gave-a-very-long-name-of-many-words-which-no-claim-can-have-as-a-whole"
LONG_ENTRY: Final = "an-entry-that-has-a-long-name-too-so-that-both-must-be-cut"

PODS: Final = ("web", "app", "job", LONG)
"""None of one letter: stock cuts that to nothing beside a long entry, and no claim may be called -entry-x7k2p."""
CLAIMS: Final = ("one", "two", "three")
NODES: Final = ("n1", "n2")
ENTRIES: Final = ("first", "second", LONG_ENTRY)

SENSE: Final = 0.85
"""How often an operation is about something that somebody wants."""


@dataclass
class Draft:
    """The objects that should be there, and the chance that decides."""

    chance: random.Random
    templates_too: bool
    claims: set[str] = field(default_factory=set)
    templates: set[str] = field(default_factory=set)
    pods: dict[str, ops.CreatePod] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    """Pods that were bound and have not ended, whether or not they are being deleted."""
    waited: bool = False
    """Whether such a pod was deleted by force already: for more than a minute ours then keeps its claims."""
    nodes: set[str] = field(default_factory=set)
    linked: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By pod, the names of claims that it was listed in, or was told to use."""
    protected: set[str] = field(default_factory=set)
    """Claims that ever had the finalizer: they take their time to go."""

    def sensible(self) -> bool:
        """Tell whether this time something sensible is done."""
        return self.chance.random() < SENSE

    def pod(self, *, bound: bool | None = None) -> str | None:
        """Return a pod that is there and not over."""
        found = [name for name in self.pods if name not in self.over and bound in (None, name in self.bound)]
        return self.chance.choice(found) if found else None

    def may_go(self, pod: str) -> bool:
        """Tell whether the pod's object may go: only one running pod of a script vanishes, since that takes time."""
        return not self.waited or pod not in self.running

    def claim(self, *, of: str | None = None) -> Claim:
        """Return a claim: mostly one that a pod wants, or that one."""
        wanted: list[Claim] = [
            ops.Named(want.claim) if want.claim else ops.Own(pod.name, want.entry)
            for pod in self.pods.values()
            for want in pod.wants
            if of in (None, pod.name)
        ]
        if wanted and self.sensible():
            return self.chance.choice(wanted)
        return ops.Named(self.claim_name())

    def claim_name(self, *, free: bool = False) -> str:
        """Return the name of a user's claim: mostly one that is there, or mostly one that is not."""
        sensible = [name for name in CLAIMS if (name in self.claims) is not free]
        return self.chance.choice(sensible if sensible and self.sensible() else CLAIMS)

    def user_of(self, claim: Claim) -> str | None:
        """Return a pod, mostly one that wants the claim."""
        match claim:
            case ops.Named(name):
                users = [pod.name for pod in self.pods.values() if any(want.claim == name for want in pod.wants)]
            case ops.Own(pod, _) | ops.Extended(pod):
                users = [pod]
        return self.chance.choice(users) if users and self.sensible() else self.pod()

    def wants(self) -> tuple[Want, ...]:
        """Return what a new pod asks for: one thing mostly, sometimes more."""
        entries = self.chance.sample(ENTRIES, k=self.chance.choice((1, 1, 1, 2, 3)))
        return tuple(self._want(entry) for entry in entries)

    def _want(self, entry: str) -> Want:
        if self.templates_too and self.chance.random() < 0.5:
            known = (
                sorted(self.templates)
                if self.templates and self.sensible()
                else [content.value for content in ops.Content]
            )
            return Want(entry, template=self.chance.choice(known))
        known = sorted(self.claims) if self.claims and self.sensible() else list(CLAIMS)
        return Want(entry, claim=self.chance.choice(known))

    def concerns(self, operations: Round) -> set[str]:
        """Return the names of everything that operations are about, what their pods want included."""
        found = set(_names(operations))
        found |= {name for pod in found & self.pods.keys() for name in _names(self.pods[pod].wants)}
        found |= {name for pod in found for name in self.linked[pod]}
        return found - {""} - set(ENTRIES)

    def note(self, operation: Operation) -> None:
        """Take in what has been added to the script."""
        names = set(_names(operation))
        for name in names & set(PODS):
            self.linked[name] |= names & set(CLAIMS)
        if isinstance(operation, ops.Protect | ops.Allocate | ops.Schedule):
            self.protected |= self.concerns((operation,)) & set(CLAIMS)
        self._note_pod(operation)
        self._note_thing(operation)

    def _note_pod(self, operation: Operation) -> None:
        self._note_run(operation)
        match operation:
            case ops.CreatePod(name, _, node) if name not in self.pods:
                self.pods[name] = operation
                self.bound |= {name} if node else set()
            case ops.DeletePod(name, way):
                if way is Way.FORCED or name not in self.bound:
                    self._forget(name)
                else:
                    self.over.add(name)
            case ops.Bind(name) | ops.Schedule(name):
                self.bound.add(name)
            case ops.Finish(name):
                self.over.add(name)
            case _:
                pass

    def _note_run(self, operation: Operation) -> None:
        match operation:
            case ops.CreatePod(name, _, node) if name not in self.pods:
                self.running = self.running - {name} | ({name} if node else set())
            case ops.Bind(name) | ops.Schedule(name):
                self.running.add(name)
            case ops.Finish(name):
                self.running.discard(name)
            case ops.DeletePod(name, Way.FORCED) | ops.LetGo(name) if name in self.running:
                self.waited = True
            case _:
                pass

    def _note_thing(self, operation: Operation) -> None:
        match operation:
            case ops.CreateClaim(name):
                self.claims.add(name)
            case ops.DeleteClaim(ops.Named(name)):
                self.claims.discard(name)
            case ops.CreateTemplate(name):
                self.templates.add(name)
            case ops.DeleteTemplate(name):
                self.templates.discard(name)
            case ops.CreateNode(name):
                self.nodes.add(name)
            case _:
                pass

    def _forget(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        self.bound.discard(name)
        self.over.discard(name)
        if pod is not None and pod.held:
            self.pods[name] = pod
            self.over.add(name)


def _names(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _names(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _names(getattr(value, each.name))
