"""Implements the ``kubectl dra ungate`` command: the way out where no controller removes the scheduling gate.

The label of the namespace is removed first, or the policy would gate the pods that replace those of now. Only the gate
of dra-reserve is removed from pods; a pod without it starts more slowly, and as safely.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.gate.opt_in import GATE_LABEL
from dra.cli.kubectl.printers import print_to_stderr
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.engine.claims.reasons import list_names
from dra.kube.client import Selection
from dra.kube.errors import Conflict, Forbidden, Invalid, NotFound, ServerError
from dra.kube.resources import NAMESPACES, PODS
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.pods import Pod

LABEL_SETTLES: Final = 1.0
"""Seconds after which API servers no longer gate pods of a namespace that has lost the label."""

PASSES_MAX: Final = 5
"""Maximum number of times that the pods of a namespace are listed; more are needed only while pods are being gated."""

CONCURRENT_MAX: Final = 16
"""Maximum number of patches under way at once."""

_REFUSALS: Final = (Forbidden, Invalid, ServerError)
"""Errors of one object: missing rights, an admission webhook that refuses, or one that is called in vain."""


@dataclass(slots=True, kw_only=True)
class UngatedNamespace:
    """The effect of the command on one namespace; on a dry run, the effect that it would have."""

    name: str
    label_removed: bool = False
    refused: str = ""
    """Error of a removal of the label that the API server refused; empty if it did not."""

    pods: dict[Uid, Key] = field(default_factory=dict)
    """Pods whose gate was removed."""

    left: int = 0
    """Pods that still had the gate when they were listed last."""

    pod_errors: dict[Uid, str] = field(default_factory=dict)
    """Errors of pods whose gate the API server did not remove at the last attempt."""


async def ungate_namespace(connection: Connection, name: str, *, keep_label: bool, dry_run: bool) -> UngatedNamespace:
    """Remove the label of one namespace, and the gate from its pods; raise ApiError."""
    done = UngatedNamespace(name=name)
    if not keep_label:
        await _remove_label(connection, done, dry_run=dry_run)
    for number in range(PASSES_MAX):
        gated = await _gated_pods(connection, name)
        done.left = len(gated)
        if dry_run:
            done.pods = {uid: pod.metadata.key for uid, pod in gated.items()}
        if dry_run or not (gated or (done.label_removed and number == 0)):
            return done
        await _remove_gates(connection, done, gated)
        if number > 0 and gated.keys() <= done.pod_errors.keys():
            return done
        await asyncio.sleep(LABEL_SETTLES if done.label_removed and number == 0 else 0)
    return done


async def _remove_label(connection: Connection, done: UngatedNamespace, *, dry_run: bool) -> None:
    key = ("", done.name)
    try:
        namespace = await connection.client.get(NAMESPACES, key, PartialObjectMetadata)
        if GATE_LABEL not in (namespace.metadata.labels or {}):
            return
        await connection.client.merge_patch(
            NAMESPACES, key, {"metadata": {"labels": {GATE_LABEL: None}}}, model=PartialObjectMetadata, dry_run=dry_run
        )
    except _REFUSALS as error:
        done.refused = str(error)
        return
    done.label_removed = True


async def _gated_pods(connection: Connection, namespace: str) -> dict[Uid, Pod]:
    pages = connection.client.list_pages(PODS, Pod, selection=Selection(namespace=namespace))
    return {
        pod.metadata.uid: pod
        async for page in pages
        for pod in page.items
        if SCHEDULING_GATE in pod.gates and not pod.terminal
    }


async def _remove_gates(connection: Connection, done: UngatedNamespace, gated: dict[Uid, Pod]) -> None:
    slots = asyncio.Semaphore(CONCURRENT_MAX)
    done.pod_errors.clear()
    patch = {"spec": {"schedulingGates": [{"name": SCHEDULING_GATE, "$patch": "delete"}]}}

    async def remove(pod: Pod) -> None:
        async with slots:
            try:
                await connection.client.merge_patch(
                    PODS, pod.metadata.key, patch, model=PartialObjectMetadata, uid=pod.metadata.uid, strategic=True
                )
            except (NotFound, Conflict):
                return  # the pod is gone, or another one has its name
            except _REFUSALS as error:  # the other pods shall start
                done.pod_errors[pod.metadata.uid] = str(error)
                return
            done.pods[pod.metadata.uid] = pod.metadata.key

    await asyncio.gather(*map(remove, gated.values()))


def run_ungate(*, cluster_flags: ClusterFlags, namespaces: Sequence[str], keep_label: bool, dry_run: bool) -> None:
    """Ungate namespaces one after the other. Raises SystemExit: 1 if a pod or a label stays."""

    async def work(connection: Connection) -> bool:
        is_complete = True
        for name in dict.fromkeys(namespaces):
            done = await ungate_namespace(connection, name, keep_label=keep_label, dry_run=dry_run)
            click.echo(_describe(done, dry_run=dry_run))
            if done.refused:
                print_to_stderr(f"error: {done.refused}; new pods of namespace {name} may get the gate again")
            if done.left and not dry_run:
                why = next(iter(done.pod_errors.values()), "gated again")
                print_to_stderr(
                    f"error: namespace {name}: {done.left} pods have the gate ({why}); run the command again"
                )
            is_complete = is_complete and not done.refused and (dry_run or not done.left)
        return is_complete

    if not run(cluster_flags, work):
        raise SystemExit(1)


def _describe(done: UngatedNamespace, *, dry_run: bool) -> str:
    label = f"label {GATE_LABEL} removed, " if done.label_removed else ""
    pods = f": {list_names(name for _, name in sorted(done.pods.values()))}" if done.pods else ""
    suffix = " (dry run)" if dry_run else ""
    return f"namespace {done.name}: {label}gate {SCHEDULING_GATE} removed from {len(done.pods)} pods{pods}{suffix}"
