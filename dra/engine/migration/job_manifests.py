"""PodMigrationJobs as they are created: by a round of the descheduler, and for who asks for a migration."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from dra.api.migration.model import API_VERSION, KIND
from dra.model.meta import ObjectMeta, Struct

NAME_LENGTH_MAX: Final = 200
"""Maximum number of characters of a pod's name in the name of its job."""

UID_LENGTH: Final = 8

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class MigrationRequest(Struct, frozen=True, kw_only=True):
    """The options that jobs get; empty options leave the configured default."""

    mode: str = ""
    ttl: str = ""


def migration_job(
    pod: ObjectMeta, *, name: str, spec: Mapping[str, Any], annotations: Mapping[str, str] = _NONE
) -> dict[str, Any]:
    """Return the job that migrates a pod; ``spec`` has its fields besides the reference to the pod."""
    reference = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    metadata = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"podRef": reference, **spec}}


def requested_job(pod: ObjectMeta, request: MigrationRequest, *, name: str) -> dict[str, Any]:
    """Return the job that a person asks for."""
    options = {"mode": request.mode, "ttl": request.ttl}
    job = migration_job(pod, name=name, spec={field: value for field, value in options.items() if value})
    job["spec"]["podRef"] |= {"apiVersion": "v1", "kind": "Pod"}  # as the command has always written it
    return job


def next_job_name(pod: ObjectMeta, taken: Iterable[str]) -> str:
    """Return the name of the next job that is asked for, which has the name and the uid of its pod.

    So a repeated command finds the job of an earlier one. A job that has ended leaves its name taken: the next one gets
    a number.
    """
    names = set(taken)
    base = f"{pod.name[:NAME_LENGTH_MAX].rstrip('-.')}-{pod.uid[:UID_LENGTH]}"
    count = 1
    name = base
    while name in names:
        count += 1
        name = f"{base}-{count}"
    return name
