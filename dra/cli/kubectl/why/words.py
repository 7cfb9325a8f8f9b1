"""Facts as lines of text: what `kubectl dra explain` prints."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from dra.cli.kubectl import remedies as printed
from dra.cli.kubectl.output import coloured
from dra.cli.kubectl.why import meanings, remedies
from dra.engine.claims.reasons import LISTED_NAMES, list_names
from dra.engine.claims.view import EntryKind
from dra.engine.diagnosis.claims import ClaimDiagnosis, ReservedForSummary
from dra.engine.diagnosis.cluster_state import AllocationHold
from dra.engine.diagnosis.node_groups import NodeGroup, Obstacle, ObstacleDetail, RequestDeviceCounts
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.problems import Problem, ProblemSeverity
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, Snapshot
from dra.engine.messages.plurals import singularize
from dra.engine.messages.remedies import Remedy, WeighedChoice
from dra.model.meta import Key

COLOURS: Final = {
    ProblemSeverity.ERROR: "red",
    ProblemSeverity.LEAK: "red",
    ProblemSeverity.WARNING: "yellow",
    ProblemSeverity.INFO: "cyan",
}

ENDS: Final = {
    "jobs.batch": "completes or fails, or is deleted",
    "jobsets.jobset.x-k8s.io": "completes or fails, or is deleted",
    "pods": "ends",
}
"""When a workload of that kind is over by itself."""

OTHERWISE: Final = "is deleted, or its controller takes its entry out of the list"

PENDING: Final = {
    "finished": "has finished; another one of that name may have it next",
    "no-kind": "the API server has no such kind",
}
DOUBTS: Final = {
    "no-kind": "the API server has no such kind",
    "over-limit": "claims of the namespace name too many kinds",
    "forbidden": "no right to read it",
    "unknown": "it could not be read",
}
"""What is known of a workload, where its fate is open."""

BY_RULE: Final = {
    AllocationHold.WORKLOAD: "rule 7",
    AllocationHold.CONSUMING: "rule 8",
    AllocationHold.WAITING: "rule 8",
    AllocationHold.FOREIGN: "rule 1",
    AllocationHold.UNKNOWN: "rule 12",
    AllocationHold.LOST_NODE: "rule 12",
    AllocationHold.VANISHED: "rule 12",
    AllocationHold.GROUP: "rule 13",
    AllocationHold.RESERVATION: "held for a reservation",
    AllocationHold.FORMER: "rule 7",
    AllocationHold.DOUBT: "rule 12",
    AllocationHold.TIME: "rule 8",
    AllocationHold.NOTHING: "rule 8",
}

ENTRIES: Final = {
    EntryKind.WORKLOAD: "the workload that it is reserved for",
    EntryKind.FORMER: "an object of that name before this one",
    EntryKind.GUARD: "the guard: stands for all pods that use the claim and are not listed",
    EntryKind.TOMBSTONE: "finished pods whose objects are still there",
    EntryKind.LIVE: "pods that are starting, run, or may be bound any moment",
    EntryKind.FINISHED: "pods that have ended, or are gone",
    EntryKind.UNKNOWN: "pods of which nothing is known here",
    EntryKind.VANISHED: "pods that were deleted before anybody told that their containers had ended",
    EntryKind.LOST_NODE: "pods that vanished from a node which did not report in",
    EntryKind.GROUP: "all pods of a PodGroup",
    EntryKind.RESERVATION: "a reservation, which keeps it for its owners",
    EntryKind.FOREIGN: "listed by others; never touched",
}


def claim_lines(facts: ClaimDiagnosis, snapshot: Snapshot) -> Iterator[str]:
    """Yield what is to be said of a claim."""
    yield f"claim {_name(facts.key)}: {state(facts)}"
    if facts.devices:
        where = f" on {_nodes(facts.nodes)}" if facts.nodes else ""
        since = f", since {facts.since}" if facts.since else ""
        yield f"  devices   {list_names(str(each) for each in facts.devices)}{where}{since}"
    if facts.workload:
        yield f"  reserved  for {facts.workload}: {_fate(facts)}"
    users = facts.users
    stages = (f"{getattr(users, stage):,} {stage}" for stage in ("started", "starting", "waiting", "gated", "finished"))
    yield f"  pods      {', '.join(stages)}"
    for held in facts.held:
        yield f"  entry     {_entry(held)}"
    for hold in facts.holds:
        yield f"  kept      {BY_RULE[hold]}: {_kept(hold, facts)}"
    if facts.holds:
        yield f"  released  when {until(facts)}"
    yield from problem_lines(facts.problems, within=facts.key[0])
    if not facts.allocated and facts.waiters:
        yield f"  next      kubectl dra explain pod {facts.waiters[0]} -n {facts.key[0]}"
    yield from unsaid(snapshot)


def pod_lines(facts: PodDiagnosis, snapshot: Snapshot) -> Iterator[str]:
    """Yield what is to be said of a pod."""
    where = f" on node {facts.node}" if facts.node else ""
    yield f"pod {_name(facts.key)}: {facts.stage}{where}"
    if facts.gates:
        yield f"  gates     {', '.join(facts.gates)}"
    for claim in facts.claims:
        yield f"  claim     {claim.key[1]}: {state(claim)}"
    if facts.message:
        yield f"  told      by the scheduler: {facts.message}"
    holders = {each.key: each for each in facts.holders}
    for group in facts.groups:
        yield f"  nodes     {group_line(group, holders)}"
    yield from problem_lines(facts.problems, within=facts.key[0])
    yield from printed.lines(remedies.advised(facts.advice))
    yield from unsaid(snapshot)


def state(facts: ClaimDiagnosis) -> str:
    """Return in a few words how a claim is."""
    deleting = ", being deleted" if facts.deleting else ""
    if not facts.allocated:
        waiting = facts.users.waiting + facts.users.gated
        return (singularize(f"has no devices, {waiting} pods wait for it") if waiting else "has no devices") + deleting
    if not facts.holds:
        return "has devices that nothing keeps" + deleting
    return singularize(f"has {len(facts.devices)} devices, used by {facts.users.consuming} pods") + deleting


def until(facts: ClaimDiagnosis) -> str:
    """Return what must happen so that the claim gives its devices back."""
    return singularize(" and ".join(dict.fromkeys(_end(hold, facts) for hold in facts.holds)) or "at once")


def group_line(group: NodeGroup, holders: dict[Key, ClaimDiagnosis]) -> str:
    """Return one line about nodes that are alike."""
    who = (
        singularize(f"{group.count} nodes")
        + f" ({', '.join(group.nodes)}{', …' if group.count > len(group.nodes) else ''})"
    )
    if not group.barriers:
        return f"{who}: could take it"
    said = "; ".join(_barrier(each) for each in group.barriers)
    held = [f"{each.devices} by claim {_name(each.claim)}{_for(holders.get(each.claim))}" for each in group.holders]
    more = f" and {group.others} more claims" if group.others else ""
    return f"{who}: {said}" + (f"; held: {', '.join(held)}{more}" if held else "")


def problem_lines(problems: Iterable[Problem], *, within: str | None) -> Iterator[str]:
    """Yield each problem, and what to do about it; `within` as in `remedies.found`."""
    for problem in problems:
        grade = coloured(problem.grade.value.ljust(9), COLOURS[problem.grade])
        yield f"  {grade} {problem.trouble}: {remedies.text(problem)}"
        yield from printed.lines(remedy(problem, within=within))


def remedy(problem: Problem, *, within: str | None) -> Remedy | None:
    """Return the remedy of a problem: its own, or what is said of all problems of that name."""
    found = remedies.found(problem, within=within)
    if found is None and (todo := meanings.remedy(problem.trouble)):
        return WeighedChoice(todo)
    return found


def unsaid(snapshot: Snapshot) -> Iterator[str]:
    """Yield what could not be known."""
    for resource, count in Counter(gap.resource for gap in snapshot.gaps).items():
        why = next(gap.why for gap in snapshot.gaps if gap.resource == resource)
        yield f"  unknown   {resource}: {why}" + (f" (and {count - 1} more)" if count > 1 else "")
    history = "who was listed when, and what came back: only a controller that watches knows"
    yield f"  unknown   {history} ({leader(snapshot.leader)})"


def leader(found: ControllerLease) -> str:
    """Return what is known of our controller."""
    match found.presence:
        case ControllerPresence.RUNNING:
            return f"{found.holder} is at work"
        case ControllerPresence.STALE:
            return f"lease {found.name} was last renewed {found.seconds} s ago: none is at work"
        case ControllerPresence.ABSENT:
            return f"no lease {found.name}: none is at work, or one without leader election"
        case _:
            return f"lease {found.name or 'of the controller'} cannot be read"


def data(facts: ClaimDiagnosis | PodDiagnosis, snapshot: Snapshot) -> dict[str, Any]:
    """Return facts for JSON and YAML, with texts and commands beside the numbers."""
    named = {"namespace": facts.key[0], "name": facts.key[1], "uid": facts.uid}
    kind = "Pod" if isinstance(facts, PodDiagnosis) else "ResourceClaim"
    told: dict[str, Any] = {"kind": kind, "metadata": named, **msgspec.to_builtins(facts)}
    told["problems"] = [problem_data(each, within=facts.key[0]) for each in facts.problems]
    told["unknown"] = [{"resource": gap.resource, "why": gap.why} for gap in snapshot.gaps]
    told["controller"] = leader(snapshot.leader)
    if isinstance(facts, PodDiagnosis):
        advised = printed.data(remedies.advised(facts.advice))
        told["next"] = advised.get("command", "")
        told["decision"] = advised.get("decision", "")
        holders = {each.key: each for each in facts.holders}
        told["nodes"] = [group_line(group, holders) for group in facts.groups]
    else:
        told["until"] = until(facts) if facts.holds else ""
        commands = (remedies.command(each, within=facts.key[0]) for each in facts.problems)
        told["next"] = next(filter(None, commands), "")
    return told


def problem_data(problem: Problem, *, within: str | None) -> dict[str, Any]:
    """Return a problem for JSON; `within` as in `remedies.found`."""
    found = {
        "trouble": problem.trouble.value,
        "grade": problem.grade.value,
        "object": str(problem.subject),
        "text": remedies.text(problem),
        **printed.data(remedies.found(problem, within=within)),
        "remedy": meanings.remedy(problem.trouble),
        "facts": problem.numbers,
    }
    return {key: value for key, value in found.items() if value}


def resource_name(kind: str, name: str) -> str:
    """Return what ``-o name`` says of an object, as kubectl does."""
    return f"{'resourceclaim.resource.k8s.io' if kind == 'ResourceClaim' else kind.lower()}/{name}"


def _name(key: Key) -> str:
    return "/".join(key)


def _nodes(names: tuple[str, ...]) -> str:
    return f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes ({list_names(names)})"


def _fate(facts: ClaimDiagnosis) -> str:
    told = {
        "alive": "exists",
        "pending": PENDING.get(facts.phase, "does not exist yet"),
        "finished": "has finished",
        "gone": "is gone",
        "asked": "exists, as another object",
        "doubt": f"nobody can tell ({DOUBTS.get(facts.phase, facts.phase)})",
    }
    if facts.released:
        return told[facts.fate] + ", its entry was taken off the list"
    return told[facts.fate] + (", entered in the list" if facts.entered else ", not entered in the list")


def _entry(held: ReservedForSummary) -> str:
    if held.count == 1 or not held.names:
        return f"{held.reference}: {ENTRIES[held.kind]}"
    return f"{held.count} × {ENTRIES[held.kind]}: {_few(held.names, held.count)}"


def _few(names: tuple[str, ...], count: int) -> str:
    """Return some names, and how many more there are of all."""
    more = count - len(names[:LISTED_NAMES])
    return ", ".join(names[:LISTED_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _kept(hold: AllocationHold, facts: ClaimDiagnosis) -> str:
    users = facts.users
    waiting = users.waiting + users.gated
    others = [each.reference for each in facts.held if each.kind is EntryKind.FOREIGN]
    reservations = [each.reference for each in facts.held if each.kind is EntryKind.RESERVATION]
    lost = [each.reference.partition("/")[2] for each in facts.held if each.kind is EntryKind.LOST_NODE]
    told = {
        AllocationHold.WORKLOAD: f"{facts.workload} may still use it",
        AllocationHold.CONSUMING: f"{users.consuming} pods use it: {_few(facts.consumers, users.consuming)}",
        AllocationHold.WAITING: f"{waiting} pods wait for it: {_few(facts.waiters, waiting)}",
        AllocationHold.FOREIGN: f"{list_names(others)}: an entry of others is never touched",
        AllocationHold.UNKNOWN: "pods are listed of which nobody can tell whether they are there",
        AllocationHold.LOST_NODE: (
            f"pods may still run on node {list_names(lost)}, which did not report in when the pods vanished"
        ),
        AllocationHold.VANISHED: "pods vanished before anybody told that their containers had ended",
        AllocationHold.GROUP: "its PodGroup is there",
        AllocationHold.RESERVATION: f"{list_names(reservations)} keeps it for the owners to come",
        AllocationHold.FORMER: "an object of the same name had it, and is not certainly gone",
        AllocationHold.DOUBT: "nobody can tell whether the workload has it",
        AllocationHold.TIME: "a scheduling cycle may still bind a pod to it",
        AllocationHold.NOTHING: "nobody uses it, and nothing has ended that would free it",
    }
    return told[hold]


def _end(hold: AllocationHold, facts: ClaimDiagnosis) -> str:
    kind = facts.workload.partition("/")[0]
    told = {
        AllocationHold.WORKLOAD: f"{facts.workload} {ENDS.get(kind, OTHERWISE)}",
        AllocationHold.CONSUMING: f"its {facts.users.consuming} pods end",
        AllocationHold.WAITING: f"the {facts.users.waiting + facts.users.gated} pods that wait are gone",
        AllocationHold.FOREIGN: "whoever listed them takes the other entries away",
        AllocationHold.LOST_NODE: "the node is gone, rebooted or back for some minutes",
        AllocationHold.VANISHED: "a controller has waited for their grace periods and 70 s, and has read their nodes",
        AllocationHold.GROUP: "its PodGroup is gone",
        AllocationHold.RESERVATION: "the reservation ends, or is deleted, and no pod uses it",
        AllocationHold.TIME: "a minute has passed (21 where pods wait for volumes)",
        AllocationHold.NOTHING: "the next pod that uses it ends",
    }
    return told.get(hold, "somebody vouches that nobody uses it")


def _for(facts: ClaimDiagnosis | None) -> str:
    if facts is None:
        return ""
    whose = f"for {facts.workload} " if facts.workload else ""
    return f" ({whose}until {until(facts)})" if facts.holds else " (which nothing keeps)"


def _barrier(barrier: ObstacleDetail) -> str:
    match barrier.obstacle:
        case Obstacle.CORDONED:
            return "cordoned"
        case Obstacle.TAINTED:
            return f"taint {barrier.detail} is not tolerated"
        case Obstacle.SELECTOR:
            return f"not of label {barrier.detail}" if barrier.detail else "excluded by the pod's affinity"
        case Obstacle.ROOM:
            return f"too little room: {barrier.detail}"
        case Obstacle.ELSEWHERE:
            return f"claim {barrier.detail} is allocated elsewhere"
        case _:
            counted = ", ".join(_counted(each) for each in barrier.devices)
            return counted + (f" ({barrier.detail})" if barrier.detail else "")


def _counted(devices: RequestDeviceCounts) -> str:
    free = devices.offered - devices.held - devices.tainted
    asked = f"{devices.asked} asked for" if devices.asked else "all asked for"
    taints = f", {devices.tainted} tainted ({', '.join(devices.taints)})" if devices.tainted else ""
    return f"request {devices.request}: {devices.offered} devices, {devices.held} held{taints}, {free} free, {asked}"
