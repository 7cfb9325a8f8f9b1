"""What is to be done outside of the claims, each looked at: a step counts as done when that can be seen."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dra.cli.kubectl import plane, standdown
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.downgrade import advice
from dra.cli.kubectl.downgrade.reading import OURS, Survey
from dra.cli.kubectl.findings import Finding, Verdict
from dra.cli.kubectl.preflight import checks
from dra.engine.claims.downgrade import DowngradeState
from dra.engine.claims.reasons import list_names
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client, Selection
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden
from dra.kube.lease_rules import Lease
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.references import GroupResource
from dra.model.workload_reservations import FORCE_RELEASE, PRE_LIST, RESERVED_FOR, RESERVED_FOR_UID

GATE_LABEL: Final = "reserve.dra/gate"
PART_OF: Final = "app.kubernetes.io/part-of=dra-reserve"
CONTROLLERS: Final = "app.kubernetes.io/name=dra-reserve"

OF_THE_PLUGIN: Final = frozenset(
    f"{name}.reserve.dra" for name in ("own-claims", "own-events", "own-slices", "own-topologies")
)
"""Policies that belong to the node plugin, which goes on working."""

OF_THE_INSTALLATION: Final = frozenset(
    f"{name}.reserve.dra"
    for name in (
        *("entries", "releases", "annotations", "references", "controller-pods"),
        *("reservations", "owners", "preemption", "placeholders"),
        *("extender-writes", "extender-objects", "controller-reservations"),
    )
)
"""Policies that come with the manifests and go with them. No stock component is limited by one, and no pod waits for
one: they may stay until the manifests are deleted."""

_ADMISSION: Final = "admissionregistration.k8s.io"
_POLICIES: Final = (
    "mutatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingadmissionpolicies",
)
_SET_BY_PEOPLE: Final = frozenset({RESERVED_FOR, RESERVED_FOR_UID, PRE_LIST, FORCE_RELEASE})
_NAMESPACES: Final = GroupResource(resource="namespaces")
_DEPLOYMENTS: Final = GroupResource(resource="deployments", group="apps")
_DEFINITIONS: Final = GroupResource(resource="customresourcedefinitions", group="apiextensions.k8s.io")
_ROLES: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How far back somebody wants to go."""

    lease: Key
    probe: bool = False
    purge: bool = False
    """Nothing of ours is to be left, not even what is needed to come back."""
    given: str = ""
    """The options of the question that a printed command repeats."""


async def look(connection: Connection, survey: Survey, wish: Wish) -> list[Finding]:
    """Look at every step; raises ApiError."""
    client = connection.client
    discovery = Discovery(client)
    now = await checks.server_time(connection.transport) or connection.clock.wall()
    sign = await checks.stock_sign(client, now=now, probing=wish.probe)
    findings = [
        judge_claims(survey, wish.given),
        await controllers(client, wish),
        checks.judge_stock(sign, replace=False, back=True),
        await _policies(client, discovery, wish),
        await _namespaces(client, discovery),
        judge_gates(survey, wish.given),
        judge_notes(survey, purge=wish.purge, given=wish.given),
    ]
    if wish.purge:
        findings += [await _definitions(client, discovery), await _installation(client, discovery, wish)]
    return findings


def judge_claims(survey: Survey, given: str = "") -> Finding:
    """Judge the claims as a whole; each of them stands in the table by itself."""
    left = [each for each in survey.assessments if each.standing is not DowngradeState.READY]
    if not left:
        count = len(survey.assessments)
        return Finding(check="claims", verdict=Verdict.OK, detail=f"stock Kubernetes understands all {count} of them")
    by_standing = {standing: sum(each.standing is standing for each in left) for standing in DowngradeState}
    detail = ", ".join(f"{count} {standing.value}" for standing, count in by_standing.items() if count)
    movable = any(by_standing[each] for each in (DowngradeState.CONVERTIBLE, DowngradeState.ORPHAN))
    remedy = advice.apply(given) if movable else WeighedChoice("see above")
    return Finding(check="claims", verdict=Verdict.LEFT, detail=detail, remedy=remedy)


async def controllers(client: Client, wish: Wish) -> Finding:
    """Look at the controllers of ours; raises ApiError."""
    found = await standdown.lease(client, wish.lease)
    deployments = await _listed(client, Discovery(client), _DEPLOYMENTS, labels=CONTROLLERS)
    return judge_controllers(found, deployments, wish, pid=await plane.controller(client))


def judge_controllers(
    lease: Lease | None, deployments: Iterable[PartialObjectMetadata], wish: Wish, *, pid: int | None = None
) -> Finding:
    """Judge whether controllers of ours may act. `pid` is that of a local plane's controller, which takes no lease."""
    check, where = "controller", "/".join(wish.lease)
    installed = [each.metadata for each in deployments]
    names = list_names(f"{meta.namespace}/{meta.name}" for meta in installed)
    remove = WeighedChoice(
        f"delete Deployment {names} once no claim needs it any more: gates then stay closed, lists unkept"
    )
    holder = lease.spec.holder_identity if lease is not None else ""
    if pid is not None:
        detail = f"the controller of the local plane acts (pid {pid}): it takes no lease, and enters claims again"
        return Finding(check=check, verdict=Verdict.WARNING, detail=detail)
    if lease is not None and not lease.stood_down and (holder or installed):
        detail = f"{holder or 'a deployment'} may act (lease {where})"
        return Finding(check=check, verdict=Verdict.LEFT, detail=detail, remedy=advice.apply(wish.given))
    if lease is None and installed:
        detail = f"is installed, and no lease {where} tells whether it acts"
        return Finding(check=check, verdict=Verdict.LEFT, detail=detail, remedy=remove)
    if installed:
        detail = f"stands down (lease {where}); its deployment may be deleted"
        verdict = Verdict.LEFT if wish.purge else Verdict.OK
        return Finding(check=check, verdict=verdict, detail=detail, remedy=remove if wish.purge else None)
    detail = f"stands down (lease {where})" if lease is not None and lease.stood_down else "none is installed"
    return Finding(check=check, verdict=Verdict.OK, detail=detail)


async def _policies(client: Client, discovery: Discovery, wish: Wish) -> Finding:
    found, theirs = [], OF_THE_PLUGIN if wish.purge else OF_THE_PLUGIN | OF_THE_INSTALLATION
    for plural in _POLICIES:
        objects = await _listed(client, discovery, GroupResource(resource=plural, group=_ADMISSION))
        names = (each.metadata.name for each in objects)
        found += [f"{plural}/{name}" for name in names if name.endswith(".reserve.dra") and name not in theirs]
    if not found:
        return Finding(check="policies", verdict=Verdict.OK, detail="none that makes pods wait")
    return Finding(
        check="policies",
        verdict=Verdict.LEFT,
        detail=f"there are still {list_names(found)}",
        remedy=WeighedChoice(f"delete {' '.join(found)}: from then on they hold for no namespace of the cluster"),
    )


async def _namespaces(client: Client, discovery: Discovery) -> Finding:
    asking = [each.metadata.name for each in await _listed(client, discovery, _NAMESPACES, labels=GATE_LABEL)]
    if not asking:
        return Finding(check="namespaces", verdict=Verdict.OK, detail="none asks for our gate")
    remedy = WeighedChoice(
        f"have whoever runs {list_names(asking)} take label {GATE_LABEL} off, or no pod made there ever starts"
    )
    detail = f"{list_names(asking)} ask for our gate"
    return Finding(check="namespaces", verdict=Verdict.LEFT, detail=detail, remedy=remedy)


def judge_gates(survey: Survey, given: str = "") -> Finding:
    """Judge the pods behind our gate: without a controller they wait for ever."""
    if not survey.gated:
        return Finding(check="gates", verdict=Verdict.OK, detail="no pod is behind our gate")
    pods = list_names("/".join(each.key) for each in survey.gated.values())
    detail = f"{len(survey.gated)} pods wait behind our gate: {pods}"
    return Finding(check="gates", verdict=Verdict.LEFT, detail=detail, remedy=advice.apply(given))


def judge_notes(survey: Survey, *, purge: bool, given: str = "") -> Finding:
    """Judge annotations and finalizers of ours. What people have set is harmless, and the way back in."""
    check, finalized = "annotations", survey.finalized
    if finalized:
        detail = f"finalizers {OURS}* on {list_names('/'.join(key) for key in sorted(finalized))}"
        return Finding(
            check=check,
            verdict=Verdict.LEFT,
            detail=detail,
            remedy=WeighedChoice("take these finalizers off: no controller of ours will"),
        )
    by_people = [key for key, noted in survey.noted_claims.items() if _SET_BY_PEOPLE.intersection(noted)]
    left = [f"{len(survey.noted_claims)} claims" if survey.noted_claims else ""]
    left += [f"{len(survey.noted_pods)} pods" if survey.noted_pods else ""]
    where = " and ".join(filter(None, left))
    if not where:
        return Finding(check=check, verdict=Verdict.OK, detail="none of ours on claims and pods, nor finalizers")
    if purge:
        remedy = advice.purge(given)
        return Finding(check=check, verdict=Verdict.LEFT, detail=f"{OURS}* on {where}", remedy=remedy)
    detail = f"{OURS}* on {where}: without effect now, and the way back ({len(by_people)} claims name a workload)"
    return Finding(check=check, verdict=Verdict.OK, detail=detail)


async def _definitions(client: Client, discovery: Discovery) -> Finding:
    found = await _listed(client, discovery, _DEFINITIONS, labels=PART_OF)
    names = [each.metadata.name for each in found]
    if not names:
        return Finding(check="CRDs", verdict=Verdict.OK, detail="none of ours")
    remedy = WeighedChoice(
        f"delete {list_names(names)} when no object of theirs is needed: all objects go, in every namespace"
    )
    return Finding(check="CRDs", verdict=Verdict.LEFT, detail=f"{list_names(names)}, and all objects", remedy=remedy)


async def _installation(client: Client, discovery: Discovery, wish: Wish) -> Finding:
    found = []
    for plural in ("clusterroles", "clusterrolebindings"):
        kind = GroupResource(resource=plural, group=_ROLES)
        found += [f"{plural}/{e.metadata.name}" for e in await _listed(client, discovery, kind, labels=PART_OF)]
    namespaces = [e.metadata.name for e in await _listed(client, discovery, _NAMESPACES, labels=PART_OF)]
    found += [f"namespaces/{name}" for name in namespaces if name == wish.lease[0]]
    if not found:
        return Finding(check="installation", verdict=Verdict.OK, detail="no role, no namespace of ours")
    remedy = WeighedChoice(f"delete {' '.join(found)}; with a namespace goes everything that is in it")
    return Finding(check="installation", verdict=Verdict.LEFT, detail=list_names(found), remedy=remedy)


async def _listed(
    client: Client, discovery: Discovery, kind: GroupResource, *, labels: str = ""
) -> list[PartialObjectMetadata]:
    """Return the objects of a kind, none where the server does not have it; raises ApiError."""
    resource = await discovery.resolve(kind)
    if resource is None:
        return []
    try:
        pages = client.list_pages(resource, PartialObjectMetadata, selection=Selection(labels=labels))
        return [each async for page in pages for each in page.items]
    except Forbidden as error:
        error.what = f"{kind} (to see whether any of ours are left)"
        raise
