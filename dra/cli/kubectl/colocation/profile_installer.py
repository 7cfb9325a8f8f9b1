"""Implements ``kubectl dra colocation apply``: installs the admission policies, then gives them the profiles.

The policies are written with the rights of the person who runs the command; no account of dra-reserve has a right on
policies. An object of the same name that is not dra-reserve's stays as it is, and ends the command.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import click

from dra.api.profiles import parameters, parameters_crd
from dra.api.profiles.well_known import PARAMETERS
from dra.cli import profile_policies
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.colocation.profile_reader import ReadProfiles, read_profiles
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.koordinator_requests import MUTATING_POLICIES, serves_policies
from dra.engine.instants import Moment
from dra.engine.profiles.decide import conditions_of
from dra.kube.errors import NotFound
from dra.kube.resources import COLOCATION_PROFILE_PARAMETERS, COLOCATION_PROFILES, Resource
from dra.model.meta import ObjectMeta, PartialObjectMetadata, UnstructuredObject

MANAGER: Final = "kubectl-dra"
OWNED: Final = ("app.kubernetes.io/part-of", "dra-reserve")
"""Label of the objects that dra-reserve installs."""
NAME_LABELS: Final = {"app.kubernetes.io/name": "dra-reserve", OWNED[0]: OWNED[1]}

_PLURALS: Final = {
    "MutatingAdmissionPolicy": MUTATING_POLICIES,
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "CustomResourceDefinition": "customresourcedefinitions",
}

ESTABLISHED_WITHIN: Final = 10.0
"""Seconds until a new kind is served."""


def apply_all(*, cluster_flags: ClusterFlags, dry_run: bool) -> None:
    """Run ``kubectl dra colocation apply``; the declaration describes the options."""
    failed = run(cluster_flags, lambda connection: _apply(connection, dry_run=dry_run))
    if failed:
        raise SystemExit(1)


async def _apply(connection: Connection, *, dry_run: bool) -> bool:
    """Apply everything; return whether a profile is not in effect."""
    if not await serves_policies(connection.client):
        raise FailedError(
            "the server has no MutatingAdmissionPolicies, which come with Kubernetes 1.36; nothing was changed. "
            "On a local plane, profiles are in effect without them; on other servers, "
            "this applies manifests with their profiles: kubectl dra apply --help"
        )
    read = await read_profiles(connection)
    definition = parameters_crd.custom_resource_definition()
    documents = [definition, *profile_policies.documents()]
    before = [await _present(connection, document) for document in documents]  # refuse before the first write
    for document, present in zip(documents, before, strict=True):
        await _write(connection, document, present=present, dry_run=dry_run)
        if document is definition and present is None and not dry_run:
            await _wait_until_served(connection)
    await _write_parameters(connection, read, dry_run=dry_run)
    await _report(connection, read, dry_run=dry_run)
    return any(outcome.applied is None and not outcome.resolution.disabled for outcome in read.evaluation.outcomes)


async def _present(connection: Connection, document: Mapping[str, Any]) -> UnstructuredObject | None:
    """Return the object as it is; raise FailedError if it is not dra-reserve's."""
    resource, name = _resource(document), str(document["metadata"]["name"])
    try:
        present = await connection.client.get(resource, ("", name), UnstructuredObject)
    except NotFound:
        return None
    is_ours = resource.kind == "CustomResourceDefinition"  # of dra-reserve's own group
    if not is_ours and (present.metadata.labels or {}).get(OWNED[0]) != OWNED[1]:
        raise FailedError(
            f"{resource.kind} {name}: exists without the label {OWNED[0]}={OWNED[1]}, so it is not dra-reserve's; "
            "it stays as it is, and nothing was changed. Remove or label it first"
        )
    return present


async def _write(
    connection: Connection, document: Mapping[str, Any], *, present: UnstructuredObject | None, dry_run: bool
) -> None:
    resource, name = _resource(document), str(document["metadata"]["name"])
    labelled = {**document, "metadata": {**document["metadata"], "labels": NAME_LABELS}}
    made = await connection.client.apply(
        resource, ("", name), labelled, model=PartialObjectMetadata, manager=MANAGER, dry_run=dry_run
    )
    _echo(
        resource, name, before=present.metadata if present is not None else None, after=made.metadata, dry_run=dry_run
    )


async def _wait_until_served(connection: Connection) -> None:
    until = connection.clock.now() + ESTABLISHED_WITHIN
    while True:
        try:
            await connection.client.current_resource_version(COLOCATION_PROFILE_PARAMETERS)
        except NotFound:
            if connection.clock.now() > until:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def _write_parameters(connection: Connection, read: ReadProfiles, *, dry_run: bool) -> None:
    wanted = read.evaluation.parameters
    label = f"{parameters.KIND.lower()}.{parameters.GROUP}/{PARAMETERS}"
    if wanted != read.parameters and not (dry_run and read.parameters is None):
        await connection.client.apply(
            COLOCATION_PROFILE_PARAMETERS,
            ("", PARAMETERS),
            {"spec": wanted},
            model=PartialObjectMetadata,
            manager=MANAGER,
            dry_run=dry_run,
        )
    verb = "unchanged" if wanted == read.parameters else "created" if read.parameters is None else "configured"
    click.echo(f"{label} {verb}{' (dry run)' if dry_run else ''}")
    for name in sorted({*read.in_effect} - {profile.name for profile in read.evaluation.profiles}):
        click.echo(f"profile {name}: no longer in effect{' (dry run)' if dry_run else ''}")


async def _report(connection: Connection, read: ReadProfiles, *, dry_run: bool) -> None:
    """Print the outcome of each profile, and write it into its status."""
    now = Moment(instant=connection.clock.now(), wall=connection.clock.wall().timestamp())
    for outcome in read.evaluation.outcomes:
        click.echo(f"profile {outcome.name}: {outcome.reason[1]}")
        if outcome.conflicts:
            click.echo(f"profile {outcome.name}: warning: {outcome.conflict_text}")
        if dry_run:
            continue
        try:
            await connection.client.merge_patch(
                COLOCATION_PROFILES,
                ("", outcome.name),
                {"status": {"conditions": conditions_of(outcome, now=now)}},
                model=PartialObjectMetadata,
                uid=outcome.uid,
                subresource="status",
            )
        except NotFound:
            click.echo(f"profile {outcome.name}: was deleted meanwhile; run the command again")


def _resource(document: Mapping[str, Any]) -> Resource:
    group, _, version = str(document["apiVersion"]).rpartition("/")
    kind = str(document["kind"])
    return Resource(group, version, _PLURALS[kind], kind, namespaced=False)


def _echo(resource: Resource, name: str, *, before: ObjectMeta | None, after: ObjectMeta, dry_run: bool) -> None:
    same = before is not None and before.generation == after.generation
    verb = "created" if before is None else "unchanged" if same else "configured"
    click.echo(f"{resource.kind.lower()}.{resource.group}/{name} {verb}{' (dry run)' if dry_run else ''}")
