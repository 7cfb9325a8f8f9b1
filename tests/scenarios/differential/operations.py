"""What a script is made of: the things that users, schedulers and kubelets do, as values.

Their text is Python, so that a script out of a failure can be pasted into a test.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from typing import TypeAlias


class Brief:
    """Prints itself as one would write it: without what is as usual."""

    def __repr__(self) -> str:
        shown = [field for field in fields(self) if getattr(self, field.name) != field.default]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(map(self._argument, shown))})"

    def _argument(self, field: Field[object]) -> str:
        value = getattr(self, field.name)
        text = f"{type(value).__name__}.{value.name}" if isinstance(value, StrEnum) else repr(value)
        return text if field.default is MISSING else f"{field.name}={text}"


@dataclass(frozen=True, repr=False)
class Named(Brief):
    """A claim that a user made."""

    name: str


@dataclass(frozen=True, repr=False)
class Own(Brief):
    """The claim that was generated for an entry of a pod's spec.resourceClaims."""

    pod: str
    entry: str


@dataclass(frozen=True, repr=False)
class Extended(Brief):
    """The claim that the scheduler made for a pod's extended resources."""

    pod: str


Claim: TypeAlias = Named | Own | Extended


@dataclass(frozen=True, repr=False)
class Want(Brief):
    """An entry of spec.resourceClaims: of a claim or of a template, whichever is named."""

    entry: str
    claim: str = ""
    template: str = ""


class Way(StrEnum):
    """How a pod is deleted."""

    GRACEFUL = "graceful"
    """Once bound it stays, with a deletion timestamp: there is no kubelet to end it."""
    FORCED = "forced"


class Content(StrEnum):
    """What a template asks for."""

    PLAIN = "plain"
    LABELLED = "labelled"
    ADMIN = "admin"
    CHOICE = "choice"


class Stranger(StrEnum):
    """Entries that stand for no pod of the script."""

    UNKNOWN_POD = "unknown-pod"
    """A pod of which nobody ever heard."""
    FORMER_POD = "former-pod"
    """The name of a pod that may be there, with another uid."""
    FOREIGN = "foreign"
    """Neither a pod nor anything else that Kubernetes knows."""


# Users:


@dataclass(frozen=True, repr=False)
class CreatePod(Brief):
    """Create a pod; with a node it is born bound, held it survives its deletion by a finalizer."""

    name: str
    wants: tuple[Want, ...] = ()
    node: str = ""
    held: bool = False
    extended: bool = False
    """Whether it asks for an extended resource as well."""


@dataclass(frozen=True, repr=False)
class DeletePod(Brief):
    """Delete a pod."""

    name: str
    way: Way = Way.GRACEFUL


@dataclass(frozen=True, repr=False)
class LetGo(Brief):
    """Take the finalizer from a held pod."""

    pod: str


@dataclass(frozen=True, repr=False)
class CreateClaim(Brief):
    """Create a claim, as users do."""

    name: str


@dataclass(frozen=True, repr=False)
class DeleteClaim(Brief):
    """Delete a claim, whoever made it."""

    claim: Claim


@dataclass(frozen=True, repr=False)
class CreateTemplate(Brief):
    """Create a template."""

    name: str
    content: Content = Content.PLAIN


@dataclass(frozen=True, repr=False)
class DeleteTemplate(Brief):
    """Delete a template."""

    name: str


@dataclass(frozen=True, repr=False)
class PointElsewhere(Brief):
    """Let a pod's status name another claim than the one that was generated for the entry."""

    pod: str
    entry: str
    claim: str


@dataclass(frozen=True, repr=False)
class Orphan(Brief):
    """Make what a crash leaves: a claim generated for a pod and not recorded in its status; then touch the pod."""

    pod: str
    entry: str


# Schedulers:


@dataclass(frozen=True, repr=False)
class Protect(Brief):
    """Put the finalizer on a claim, as before an allocation."""

    claim: Claim


@dataclass(frozen=True, repr=False)
class Allocate(Brief):
    """Allocate a claim, finalizer first, and list these pods in the same write."""

    claim: Claim
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class List(Brief):
    """List a pod in an allocated claim."""

    claim: Claim
    pod: str


@dataclass(frozen=True, repr=False)
class ListStranger(Brief):
    """List somebody else."""

    claim: Claim
    stranger: Stranger
    name: str


@dataclass(frozen=True, repr=False)
class Unlist(Brief):
    """Take a pod, or a stranger of that name, off the list: Unreserve."""

    claim: Claim
    name: str


@dataclass(frozen=True, repr=False)
class Bind(Brief):
    """Bind a pod to a node."""

    pod: str
    node: str


@dataclass(frozen=True, repr=False)
class Schedule(Brief):
    """A whole cycle: allocate what is not, list the pod everywhere, bind it. Nothing, if a claim is missing."""

    pod: str
    node: str


@dataclass(frozen=True, repr=False)
class ExtendedClaim(Brief):
    """Make the claim for a pod's extended resources, allocated and with the pod listed, and record it in its status."""

    pod: str


# Kubelets and nodes:


@dataclass(frozen=True, repr=False)
class Run(Brief):
    """Report a pod as running, its sandbox ready."""

    pod: str


@dataclass(frozen=True, repr=False)
class LoseSandbox(Brief):
    """Report a pod's sandbox as not ready."""

    pod: str


@dataclass(frozen=True, repr=False)
class Finish(Brief):
    """Report a pod as ended."""

    pod: str
    phase: str = "Succeeded"


@dataclass(frozen=True, repr=False)
class CreateNode(Brief):
    """Create a node."""

    name: str


@dataclass(frozen=True, repr=False)
class Cordon(Brief):
    """Let no more pods be scheduled to a node."""

    name: str


@dataclass(frozen=True, repr=False)
class DeleteNode(Brief):
    """Delete a node."""

    name: str


Operation: TypeAlias = (
    CreatePod
    | DeletePod
    | LetGo
    | CreateClaim
    | DeleteClaim
    | CreateTemplate
    | DeleteTemplate
    | PointElsewhere
    | Orphan
    | Protect
    | Allocate
    | List
    | ListStranger
    | Unlist
    | Bind
    | Schedule
    | ExtendedClaim
    | Run
    | LoseSandbox
    | Finish
    | CreateNode
    | Cordon
    | DeleteNode
)

Round: TypeAlias = tuple[Operation, ...]
"""Done one right after the other; then everything comes to rest."""

Script: TypeAlias = tuple[Round, ...]
