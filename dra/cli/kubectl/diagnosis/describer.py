"""Turns diagnoses into lines of text, as `kubectl dra explain` prints them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from dra.cli.kubectl import printers
from dra.cli.kubectl.diagnosis import advice_texts, problem_texts, reason_guidance, translation_describer
from dra.cli.kubectl.printers import coloured
from dra.engine.claims.reasons import LISTED_NAMES, list_names
from dra.engine.claims.rule_descriptions import RULE_DESCRIPTIONS
from dra.engine.claims.view import EntryKind
from dra.engine.diagnosis.claims import ClaimDiagnosis, ConsumerCounts, ReservedForSummary
from dra.engine.diagnosis.cluster_state import AllocationHold
from dra.engine.diagnosis.node_groups import NodeGroup, Obstacle, ObstacleDetail, RequestDeviceCounts
from dra.engine.diagnosis.pods import PodDiagnosis
from dra.engine.diagnosis.problem_codes import ProblemSeverity
from dra.engine.diagnosis.problems import Problem
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, Snapshot
from dra.engine.messages.remedies import Remedy, WeighedChoice
from dra.engine.messages.texts import singularize
from dra.model.meta import Key
from dra.model.workload_types import WORKLOAD_TYPES

SEVERITY_COLOURS: Final = {
    ProblemSeverity.ERROR: "red",
    ProblemSeverity.LEAK: "red",
    ProblemSeverity.WARNING: "yellow",
    ProblemSeverity.INFO: "cyan",
}

WORKLOAD_ENDS: Final = {
    str(workload_type.resource): workload_type.end for workload_type in WORKLOAD_TYPES if workload_type.end
}
"""Condition under which a workload of a kind ends by itself."""

OTHER_WORKLOAD_ENDS: Final = "is deleted, or its controller removes its entry from the list"

PENDING_TEXTS: Final = {
    "finished": "has finished; a new object of that name may use the claim",
    "no-kind": "the API server does not serve this kind",
}
UNCERTAIN_TEXTS: Final = {
    "no-kind": "the API server does not serve this kind",
    "over-limit": "claims in the namespace refer to too many kinds",
    "forbidden": "no permission to read it",
    "unknown": "it could not be read",
}
"""Reasons for which the state of a workload is unknown."""

HOLD_RULES: Final = {
    AllocationHold.WORKLOAD: "Release",
    AllocationHold.CONSUMING: "Deallocate",
    AllocationHold.WAITING: "Deallocate",
    AllocationHold.FOREIGN: "List",
    AllocationHold.UNKNOWN: "Doubt",
    AllocationHold.LOST_NODE: "Doubt",
    AllocationHold.VANISHED: "Doubt",
    AllocationHold.GROUP: "Stock duties",
    AllocationHold.FORMER: "Release",
    AllocationHold.DOUBT: "Doubt",
    AllocationHold.TIME: "Deallocate",
    AllocationHold.NOTHING: "Deallocate",
}
"""Hold → name of the rule that keeps the allocation; a hold of a Reservation comes from no rule."""

ENTRY_TEXTS: Final = {
    EntryKind.WORKLOAD: "the workload that the claim is reserved for",
    EntryKind.FORMER: "an earlier object of the same name",
    EntryKind.GUARD: "guard entry for all pods that use the claim and are not listed",
    EntryKind.TOMBSTONE: "finished pods that still exist",
    EntryKind.LIVE: "pods that start, run, or may be bound at any moment",
    EntryKind.FINISHED: "pods that have finished or were deleted",
    EntryKind.UNKNOWN: "pods whose state is unknown",
    EntryKind.VANISHED: "pods that were deleted before the kubelet reported the end of their containers",
    EntryKind.LOST_NODE: "pods that were deleted while their node was not Ready",
    EntryKind.GROUP: "all pods of a PodGroup",
    EntryKind.RESERVATION: "a Reservation that keeps the claim for its owners",
    EntryKind.FOREIGN: "entry of another controller, which is never changed",
}


def describe_claim(facts: ClaimDiagnosis) -> Iterator[str]:
    """Yield the description of a claim."""
    yield f"claim {_format_key(facts.key)}: {claim_state_text(facts)}"
    if facts.devices:
        where = f" on {_nodes_text(facts.nodes)}" if facts.nodes else ""
        since = f", since {facts.since}" if facts.since else ""
        yield f"  devices   {list_names(str(device) for device in facts.devices)}{where}{since}"
    if facts.workload:
        yield f"  reserved  for {facts.workload}: {_reserved_text(facts)}"
    yield f"  pods      {stages_text(facts.users)}"
    for held in facts.held:
        yield f"  entry     {_entry_text(held)}"
    for hold in facts.holds:
        yield f"  kept      {_rule_text(hold)}: {_hold_text(hold, facts)}"
    if facts.holds:
        yield f"  released  when {release_condition(facts)}"
    yield from problem_lines(facts.problems, within=facts.key[0])
    if not facts.allocated and facts.waiters:
        yield f"  next      kubectl dra explain pod {facts.waiters[0]} -n {facts.key[0]}"


def stages_text(users: ConsumerCounts) -> str:
    """Return the numbers of pods by stage, and how many of them are where nobody knows the stage now."""
    stages = (f"{getattr(users, stage):,} {stage}" for stage in ("started", "starting", "waiting", "gated", "finished"))
    lost = f"; {users.node_not_ready:,} of them on nodes that are not Ready, as last reported"
    return ", ".join(stages) + (lost if users.node_not_ready else "")


def describe_pod(facts: PodDiagnosis) -> Iterator[str]:
    """Yield the description of a pod."""
    lost = "" if facts.node_ready else ", which is not Ready: this is what was last reported"
    where = f" on node {facts.node}{lost}" if facts.node else ""
    yield f"pod {_format_key(facts.key)}: {facts.stage}{where}"
    if facts.gates:
        yield f"  gates     {', '.join(facts.gates)}"
    for claim in facts.claims:
        yield f"  claim     {claim.key[1]}: {claim_state_text(claim)}"
    yield from translation_describer.describe_requests(facts)
    if facts.message:
        yield f"  message   from the scheduler: {facts.message}"
    holders = {holder.key: holder for holder in facts.holders}
    for group in facts.groups:
        yield f"  nodes     {node_group_text(group, holders)}"
    yield from problem_lines(facts.problems, within=facts.key[0])
    yield from printers.remedy_lines(advice_texts.advice_remedy(facts.advice))
    if facts.is_held_back:
        yield "  batch     runs on what other pods do not use, and gets less CPU time while they use more"
        yield f"  next      kubectl dra explain node {facts.node}"


def claim_state_text(facts: ClaimDiagnosis) -> str:
    """Return the state of a claim in a few words."""
    deleting = ", being deleted" if facts.deleting else ""
    if not facts.allocated:
        waiting = facts.users.waiting + facts.users.gated
        return (singularize(f"has no devices, {waiting} pods wait for it") if waiting else "has no devices") + deleting
    if not facts.holds:
        return "has devices, but nothing keeps them" + deleting
    observed = f" ({len(facts.admin_access)} with admin access)" if facts.admin_access else ""
    return singularize(f"has {len(facts.devices)} devices{observed}, used by {facts.users.consuming} pods") + deleting


def release_condition(facts: ClaimDiagnosis) -> str:
    """Return what must happen before the claim is deallocated."""
    return singularize(" and ".join(dict.fromkeys(_hold_end_text(hold, facts) for hold in facts.holds)) or "at once")


def node_group_text(group: NodeGroup, holders: dict[Key, ClaimDiagnosis]) -> str:
    """Return one line about a group of nodes with the same obstacles."""
    who = (
        singularize(f"{group.count} nodes")
        + f" ({', '.join(group.nodes)}{', …' if group.count > len(group.nodes) else ''})"
    )
    if not group.barriers:
        return f"{who}: can run it"
    barriers = "; ".join(_obstacle_text(barrier) for barrier in group.barriers)
    held = [
        f"{holder.devices} by claim {_format_key(holder.claim)}{_reserved_for_text(holders.get(holder.claim))}"
        for holder in group.holders
    ]
    more = f" and {group.others} more claims" if group.others else ""
    return f"{who}: {barriers}" + (f"; held: {', '.join(held)}{more}" if held else "")


def problem_lines(problems: Iterable[Problem], *, within: str | None) -> Iterator[str]:
    """Yield each problem with its remedy; `within` as in `problem_texts.problem_remedy`."""
    for problem in problems:
        severity = coloured(problem.severity.value.ljust(9), SEVERITY_COLOURS[problem.severity])
        yield f"  {severity} {problem.code}: {problem_texts.problem_text(problem)}"
        yield from printers.remedy_lines(remedy_or_guidance(problem, within=within))


def remedy_or_guidance(problem: Problem, *, within: str | None) -> Remedy | None:
    """Return the remedy of a problem: its own, or the guidance for all problems of the same code."""
    remedy = problem_texts.problem_remedy(problem, within=within)
    if remedy is None and (todo := reason_guidance.guidance_remedy(problem.code)):
        return WeighedChoice(todo)
    return remedy


def unknown_lines(snapshot: Snapshot, *, verbose: bool) -> Iterator[str]:
    """Yield what the snapshot does not show: unreadable resources and, if verbose, history."""
    yield from unread_lines(snapshot, verbose=verbose)
    if verbose:
        history = "past entries and deallocations: only a running controller knows"
        yield f"  unknown   {history} ({controller_text(snapshot.leader)})"


def unread_lines(snapshot: Snapshot, *, verbose: bool) -> Iterator[str]:
    """Yield the unreadable resources, in one line or, if verbose, each with the reason."""
    unread = Counter(gap.resource for gap in snapshot.gaps)
    if unread and not verbose:
        yield f"  unknown   not read: {list_names(unread)}; -v shows why"
    for resource, count in unread.items() if verbose else ():
        why = next(gap.why for gap in snapshot.gaps if gap.resource == resource)
        yield f"  unknown   {resource}: {why}" + (f" (and {count - 1} more)" if count > 1 else "")


def controller_text(lease: ControllerLease) -> str:
    """Return the state of the controller, as its lease shows it."""
    return lease_text(lease, "controller")


def lease_text(lease: ControllerLease, process: str) -> str:
    """Return the state of a process, such as the controller or the descheduler, as its lease shows it."""
    match lease.presence:
        case ControllerPresence.RUNNING:
            return f"{lease.holder} is running"
        case ControllerPresence.STALE:
            return f"lease {lease.name} was last renewed {lease.seconds} s ago: no {process} is running"
        case ControllerPresence.ABSENT:
            return f"no lease {lease.name}: no {process} is running, or it runs without leader election"
        case _:
            return f"lease {lease.name} cannot be read" if lease.name else f"the lease of the {process} was not read"


def diagnosis_data(facts: ClaimDiagnosis | PodDiagnosis, snapshot: Snapshot) -> dict[str, Any]:
    """Return a diagnosis as data for JSON and YAML, with texts and commands beside the numbers."""
    named = {"namespace": facts.key[0], "name": facts.key[1], "uid": facts.uid}
    kind = "Pod" if isinstance(facts, PodDiagnosis) else "ResourceClaim"
    content: dict[str, Any] = {"kind": kind, "metadata": named, **msgspec.to_builtins(facts)}
    content["problems"] = [problem_data(problem, within=facts.key[0]) for problem in facts.problems]
    content["unknown"] = [{"resource": gap.resource, "why": gap.why} for gap in snapshot.gaps]
    content["controller"] = controller_text(snapshot.leader)
    if isinstance(facts, PodDiagnosis):
        advised = printers.remedy_data(advice_texts.advice_remedy(facts.advice))
        content["next"] = advised.get("command", "")
        content["decision"] = advised.get("decision", "")
        holders = {holder.key: holder for holder in facts.holders}
        content["nodes"] = [node_group_text(group, holders) for group in facts.groups]
        content |= translation_describer.translation_data(facts)
    else:
        content["until"] = release_condition(facts) if facts.holds else ""
        commands = (problem_texts.safe_command(problem, within=facts.key[0]) for problem in facts.problems)
        content["next"] = next(filter(None, commands), "")
    return content


def problem_data(problem: Problem, *, within: str | None) -> dict[str, Any]:
    """Return a problem as data for JSON; `within` as in `problem_texts.problem_remedy`."""
    content = {
        "trouble": problem.code.value,
        "grade": problem.severity.value,
        "object": str(problem.subject),
        "text": problem_texts.problem_text(problem),
        **printers.remedy_data(problem_texts.problem_remedy(problem, within=within)),
        "remedy": reason_guidance.guidance_remedy(problem.code),
        "facts": problem.facts_by_name,
    }
    return {key: value for key, value in content.items() if value}


def resource_name(kind: str, name: str) -> str:
    """Return the name of an object as kubectl prints it for ``-o name``."""
    return f"{'resourceclaim.resource.k8s.io' if kind == 'ResourceClaim' else kind.lower()}/{name}"


def _format_key(key: Key) -> str:
    return "/".join(key)


def _nodes_text(names: tuple[str, ...]) -> str:
    return f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes ({list_names(names)})"


def workload_fate_text(facts: ClaimDiagnosis) -> str:
    """Return what is known of the workload that a claim names, in a few words."""
    texts = {
        "alive": "exists",
        "pending": PENDING_TEXTS.get(facts.phase, "does not exist yet"),
        "finished": "has finished",
        "gone": "is gone",
        "asked": "exists with another uid",
        "doubt": f"state unknown ({UNCERTAIN_TEXTS.get(facts.phase, facts.phase)})",
    }
    return texts[facts.fate]


def _reserved_text(facts: ClaimDiagnosis) -> str:
    listed = ", listed" if facts.entered else ", not listed"
    return workload_fate_text(facts) + (", its entry was removed from the list" if facts.released else listed)


def _entry_text(held: ReservedForSummary) -> str:
    if held.count == 1 or not held.names:
        return f"{held.reference}: {ENTRY_TEXTS[held.kind]}"
    return f"{held.count} × {ENTRY_TEXTS[held.kind]}: {_name_some(held.names, held.count)}"


def _name_some(names: tuple[str, ...], count: int) -> str:
    """Return some names, and the number of the others."""
    more = count - len(names[:LISTED_NAMES])
    return ", ".join(names[:LISTED_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _rule_text(hold: AllocationHold) -> str:
    if (name := HOLD_RULES.get(hold)) is None:
        return "held for a reservation"
    number = next(number for number, rule in RULE_DESCRIPTIONS.items() if rule.name == name)
    return f"rule {number} {name}"


def _hold_text(hold: AllocationHold, facts: ClaimDiagnosis) -> str:
    users = facts.users
    waiting = users.waiting + users.gated
    others = [entry.reference for entry in facts.held if entry.kind is EntryKind.FOREIGN]
    reservations = [entry.reference for entry in facts.held if entry.kind is EntryKind.RESERVATION]
    lost = [entry.reference.partition("/")[2] for entry in facts.held if entry.kind is EntryKind.LOST_NODE]
    texts = {
        AllocationHold.WORKLOAD: f"{facts.workload} may still use it",
        AllocationHold.CONSUMING: f"{users.consuming} pods use it: {_name_some(facts.consumers, users.consuming)}",
        AllocationHold.WAITING: f"{waiting} pods wait for it: {_name_some(facts.waiters, waiting)}",
        AllocationHold.FOREIGN: f"entries of other controllers, which are never changed: {list_names(others)}",
        AllocationHold.UNKNOWN: "the list names pods whose state is unknown",
        AllocationHold.LOST_NODE: (
            f"pods may still run on node {list_names(lost)}, which was not Ready when the pods were deleted"
        ),
        AllocationHold.VANISHED: "pods were deleted before the kubelet reported the end of their containers",
        AllocationHold.GROUP: "its PodGroup exists",
        AllocationHold.RESERVATION: f"{list_names(reservations)} keeps it for its owners",
        AllocationHold.FORMER: "an earlier object of the same name used it and may still exist",
        AllocationHold.DOUBT: "it is unknown whether the workload still uses it",
        AllocationHold.TIME: "a scheduling cycle may still bind a pod to it",
        AllocationHold.NOTHING: "no pod uses it, and no pod that used it has ended since",
    }
    return texts[hold]


def _hold_end_text(hold: AllocationHold, facts: ClaimDiagnosis) -> str:
    kind = facts.workload.partition("/")[0]
    texts = {
        AllocationHold.WORKLOAD: f"{facts.workload} {WORKLOAD_ENDS.get(kind, OTHER_WORKLOAD_ENDS)}",
        AllocationHold.CONSUMING: f"its {facts.users.consuming} pods end",
        AllocationHold.WAITING: f"the {facts.users.waiting + facts.users.gated} pods that wait are deleted",
        AllocationHold.FOREIGN: "the other controllers remove their entries",
        AllocationHold.LOST_NODE: "the node is deleted, rebooted, or Ready again for some minutes",
        AllocationHold.VANISHED: "a controller has waited for their grace periods plus 70 s and has read their nodes",
        AllocationHold.GROUP: "its PodGroup is deleted",
        AllocationHold.RESERVATION: "the Reservation ends or is deleted, and no pod uses the claim",
        AllocationHold.TIME: "one minute has passed (21 minutes if pods wait for volumes)",
        AllocationHold.NOTHING: "the next pod that uses it ends",
    }
    return texts.get(hold, "a user confirms that no pod uses it")


def _reserved_for_text(facts: ClaimDiagnosis | None) -> str:
    if facts is None:
        return ""
    whose = f"for {facts.workload} " if facts.workload else ""
    return f" ({whose}until {release_condition(facts)})" if facts.holds else " (kept by nothing)"


_OBSTACLE_TEXTS: Final = {
    Obstacle.CORDONED: "cordoned",
    Obstacle.TAINTED: "taint {detail} is not tolerated",
    Obstacle.PORTS: "a pod there uses host port {detail}",
    Obstacle.ROOM: "insufficient resources: {detail}",
    Obstacle.ELSEWHERE: "claim {detail} is allocated elsewhere",
}


def _obstacle_text(barrier: ObstacleDetail) -> str:
    if barrier.obstacle is Obstacle.SELECTOR:
        return f"no label {barrier.detail}" if barrier.detail else "excluded by the pod's affinity"
    if barrier.obstacle is Obstacle.DEVICES:
        counted = ", ".join(_device_counts_text(counts) for counts in barrier.devices)
        return counted + (f" ({barrier.detail})" if barrier.detail else "")
    return _OBSTACLE_TEXTS[barrier.obstacle].format(detail=barrier.detail)


def _device_counts_text(devices: RequestDeviceCounts) -> str:
    asked = f"{devices.asked} requested" if devices.asked else "all requested"
    held_too = f", {devices.held_and_tainted} of these held" if devices.held_and_tainted else ""
    taints = f", {devices.tainted} tainted ({', '.join(devices.taints)}{held_too})" if devices.tainted else ""
    overlapping = f", {devices.overlapping} overlap with held devices" if devices.overlapping else ""
    numbers = f"{devices.offered} devices, {devices.held} held{overlapping}{taints}, {devices.free} free, {asked}"
    return f"request {devices.request}: {numbers}"
