"""References to objects in claims: workload references and entries of ``status.reservedFor``.

References are written in kubectl's notation, which users know: ``RESOURCE[.GROUP]/NAME``, as in ``jobs.batch/train`` or
``pods/x``.
"""

import re
from typing import Final, Self

from dra.model.meta import Struct, Uid

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MAX_SUBDOMAIN: Final = 253
_MAX_LABEL: Final = 63
_QUOTED: Final = 60
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_UNKNOWN: Final = Uid("")


class MalformedReferenceError(ValueError):
    """A text that is no reference of the form ``RESOURCE[.GROUP]/NAME``."""


def _quoted(text: str) -> str:
    """Return a user's text, quoted and shortened for a message: annotations may be a quarter of a megabyte long."""
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


class GroupResource(Struct, frozen=True):
    """A kind of object, named as in URLs and RBAC: plural resource and API group ("" is the core group)."""

    resource: str
    group: str = ""

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the kind that a text such as ``jobs.batch`` or ``pods`` names.

        Raises MalformedReferenceError: the resource must be a DNS label, the group a DNS subdomain; anything else
        could not be part of a URL path.
        """
        resource, _, group = text.partition(".")
        if not (len(resource) <= _MAX_LABEL and _LABEL.fullmatch(resource)):
            wrong = f"{_quoted(text)}: {_quoted(resource)} is not a resource name"
            raise MalformedReferenceError(f"{wrong}, for example jobs.batch")
        if ("." in text) and not (len(group) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(group)):
            wrong = f"{_quoted(text)}: {_quoted(group)} is not an API group"
            raise MalformedReferenceError(f"{wrong}, for example jobs.batch")
        return cls(resource=resource, group=group)

    @property
    def unversioned(self) -> "GroupResource":
        """The kind without a version, which kubectl accepts between resource and group: ``jobs.v1.batch``."""
        version, _, group = self.group.partition(".")
        return GroupResource(resource=self.resource, group=group) if _VERSION.fullmatch(version) else self


POD_GROUPS: Final = GroupResource(resource="podgroups", group="scheduling.k8s.io")
"""PodGroups (KEP-5729, off by default up to 1.37): an entry for a PodGroup lets all its pods use the claim."""


RESERVATIONS: Final = GroupResource(resource="reservations", group="scheduling.koordinator.sh")
"""Koordinator's Reservations, cluster-scoped: an entry for a Reservation keeps a claim allocated for future pods."""


class ConsumerReference(Struct, frozen=True):
    """One entry of ``status.reservedFor``, and the value of the KEP's ``spec.reservedFor``.

    The object is in the claim's namespace. The API server checks neither kind nor existence, only that uids are unique
    in a list (upstream's validation).
    """

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: Uid = Uid("")

    def __str__(self) -> str:
        return f"{self.group_resource}/{self.name}"

    @property
    def group_resource(self) -> GroupResource:
        """The kind of the consumer, without its name."""
        return GroupResource(resource=self.resource, group=self.api_group)

    @property
    def is_pod(self) -> bool:
        """Whether the entry stands for a single pod."""
        return self.resource == "pods" and not self.api_group

    @property
    def is_pod_group(self) -> bool:
        """Whether the entry stands for all pods of a PodGroup."""
        return self.resource == POD_GROUPS.resource and self.api_group == POD_GROUPS.group

    @property
    def is_reservation(self) -> bool:
        """Whether the entry stands for a Reservation, which keeps the claim for future pods."""
        return self.resource == RESERVATIONS.resource and self.api_group == RESERVATIONS.group

    @classmethod
    def parse(cls, text: str, *, uid: Uid = _UNKNOWN) -> Self:
        """Return the reference that a text such as ``jobs.batch/train`` denotes. Raises MalformedReferenceError."""
        kind, slash, name = text.partition("/")
        if not slash or not (len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name)):
            raise MalformedReferenceError(
                f"{_quoted(text)} is not of the form RESOURCE[.GROUP]/NAME, for example jobs.batch/train"
            )
        group_resource = GroupResource.parse(kind)
        return cls(api_group=group_resource.group, resource=group_resource.resource, name=name, uid=uid)
