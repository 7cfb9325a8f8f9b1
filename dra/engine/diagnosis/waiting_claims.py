"""Claims that pods wait for, equal ones counted: a hundred claims of one template are one answer."""

from collections.abc import Iterable
from typing import Final

import msgspec

from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.model.meta import Key, Struct

NAMED_CLAIMS_MAX: Final = 20
"""Maximum number of claims of a group that are named."""


class WaitingClaims(Struct, frozen=True):
    """Claims of one namespace that pods wait for and that differ only in names, with the diagnosis of the first."""

    example: ClaimDiagnosis
    names: tuple[str, ...]
    """Names of some of the claims, the first one included."""

    count: int
    pods: int
    """The number of pods that wait for any of the claims, those behind scheduling gates included."""


def group_waiting(cluster: ClusterState, diagnoses: Iterable[ClaimDiagnosis]) -> list[WaitingClaims]:
    """Return the claims that pods wait for in groups, the group with the most pods first.

    Claims are equal if they are of one workload, request the same and have the same problems.
    """
    alike: dict[tuple[object, ...], list[ClaimDiagnosis]] = {}
    for facts in diagnoses:
        if facts.users.waiting or facts.users.gated:
            alike.setdefault(_likeness(cluster, facts), []).append(facts)
    groups = [_group(sorted(members, key=_key_of)) for members in alike.values()]
    return sorted(groups, key=lambda group: (-group.pods, group.example.key))


def _group(members: list[ClaimDiagnosis]) -> WaitingClaims:
    return WaitingClaims(
        example=members[0],
        names=tuple(facts.key[1] for facts in members[:NAMED_CLAIMS_MAX]),
        count=len(members),
        pods=sum(facts.users.waiting + facts.users.gated for facts in members),
    )


def _key_of(facts: ClaimDiagnosis) -> Key:
    return facts.key


def _likeness(cluster: ClusterState, facts: ClaimDiagnosis) -> tuple[object, ...]:
    """Return what is equal for claims with equal answers."""
    claim = cluster.claim_cache.claim(facts.key)
    # A claim reports Unsatisfiable for one of its pods: the devices that it requests tell it as well.
    codes = tuple(
        problem.code
        for problem in facts.problems
        if problem.severity is not ProblemSeverity.INFO and problem.code is not ProblemCode.UNSATISFIABLE
    )
    devices = msgspec.json.encode(claim.spec.devices) if claim is not None else b""
    return (facts.key[0], facts.workload, facts.allocated, facts.deleting, bool(facts.users.waiting), codes, devices)
