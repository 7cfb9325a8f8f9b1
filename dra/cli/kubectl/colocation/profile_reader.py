"""Reads what the evaluation of profiles depends on, at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra.api.object_fields import to_document
from dra.api.profiles.model import GROUP, KIND
from dra.api.profiles.well_known import PARAMETERS
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.koordinator_requests import serves_policies
from dra.engine.profiles.evaluation import Evaluation, evaluate
from dra.engine.profiles.resolution import priorities_of
from dra.kube.errors import NotFound
from dra.kube.resources import COLOCATION_PROFILE_PARAMETERS, COLOCATION_PROFILES, PRIORITY_CLASSES
from dra.model.meta import UnstructuredObject
from dra.model.preemption import PriorityClass


@dataclass(frozen=True, kw_only=True)
class ReadProfiles:
    """All profiles of a cluster, evaluated, and the parameters of the policy."""

    evaluation: Evaluation
    parameters: Mapping[str, Any] | None
    """The present ``spec`` of the parameters; None if they do not exist."""

    has_policies: bool = True
    """Whether the API server evaluates MutatingAdmissionPolicies."""

    @property
    def in_effect(self) -> list[str]:
        """The names of the profiles that the policy applies now, also of those that have changed since or are gone."""
        return [str(profile.get("name", "")) for profile in self._applied]

    @property
    def in_effect_unchanged(self) -> list[str]:
        """The names of the profiles that new pods get as they are now.

        Without policies, the local plane and ``kubectl dra apply`` take all profiles as they are at that moment.
        """
        profiles = self.evaluation.profiles
        return [profile.name for profile in profiles if not self.has_policies or to_document(profile) in self._applied]

    @property
    def deleted(self) -> list[str]:
        """The names of the profiles that the policy applies although they were deleted, sorted."""
        return sorted({*self.in_effect} - {outcome.name for outcome in self.evaluation.outcomes})

    @property
    def _applied(self) -> list[Mapping[str, Any]]:
        return (self.parameters or {}).get("profiles") or []


async def read_profiles(connection: Connection) -> ReadProfiles:
    """Return the profiles of a cluster; raise FailedError if it does not have the kind, and ApiError."""
    client = connection.client
    try:
        contents = [
            profile.content
            async for page in client.list_pages(COLOCATION_PROFILES, UnstructuredObject)
            for profile in page.items
        ]
    except NotFound:
        raise FailedError(
            f"the server does not serve kind {KIND} of {GROUP}; install what this prints: dra-reserve manifests crds"
        ) from None
    classes = [
        priority_class
        async for page in client.list_pages(PRIORITY_CLASSES, PriorityClass)
        for priority_class in page.items
    ]
    return ReadProfiles(
        evaluation=evaluate(contents, priorities=priorities_of(classes)),
        parameters=await _parameters(connection),
        has_policies=await serves_policies(client),
    )


async def _parameters(connection: Connection) -> Mapping[str, Any] | None:
    try:
        parameters = await connection.client.get(COLOCATION_PROFILE_PARAMETERS, ("", PARAMETERS), UnstructuredObject)
    except NotFound:
        return None
    spec: Mapping[str, Any] = parameters.content.get("spec") or {}
    return spec
