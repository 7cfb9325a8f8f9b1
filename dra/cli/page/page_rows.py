"""Single rows of the page, as functions of diagnoses: the cells of the commands, and what the page shows besides."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from dra.api.durations import SECOND
from dra.api.migration.model import MalformedPodMigrationJobError, parse_pod_migration_job
from dra.api.reservations.model import MalformedReservationError, parse_reservation
from dra.cli.kubectl.diagnosis import audit, describer, problem_texts
from dra.cli.kubectl.diagnosis.get import claim_row, device_row
from dra.cli.kubectl.migrations.migration_list import migration_row
from dra.cli.kubectl.reservations.reservation_list import reservation_row
from dra.cli.page.views import USE_COLUMNS, Cells
from dra.engine.diagnosis import colocation
from dra.engine.diagnosis.claim_workloads import ClaimWorkload
from dra.engine.diagnosis.claims import ClaimDiagnosis
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.colocation import Sampling
from dra.engine.diagnosis.devices import DeviceUsage
from dra.engine.diagnosis.problem_codes import ProblemSeverity
from dra.engine.diagnosis.problems import Problem
from dra.engine.diagnosis.rounds import RoundDiagnosis
from dra.engine.instants import NEVER
from dra.engine.messages.texts import singularize
from dra.engine.reservations.phases import expiration_time
from dra.model import pods
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, UnstructuredObject
from dra.model.node_pods import AgentNode

NONE: Final = "<none>"

MAP_LETTERS: Final = {
    "Free": "F",
    "Held": "H",
    "Used": "U",
    "Tainted": "T",
    "Gone": "G",
    "Unknown": "?",
    "Incomplete": "X",
    "Invalid": "X",
    "NotReady": "X",
    "Cordoned": "X",
    "CountersUsed": "X",
}
"""State of a device, as the overview counts devices → its letter in the map of a node."""


def claim_cells(cluster: ClusterState, facts: ClaimDiagnosis) -> Cells:
    """Return the row of a claim."""
    row = claim_row(facts, cluster.snapshot, all_namespaces=True)
    waiting = facts.users.waiting + facts.users.gated
    why, command = claim_reason(cluster, facts)
    grade = facts.problems[0].severity.value if facts.problems else ""
    return (*row.cells, *row.wide, str(waiting), grade, why, command)


def claim_reason(cluster: ClusterState, facts: ClaimDiagnosis) -> tuple[str, str]:
    """Return the first problem of a claim, or what its first waiting pod waits for; and the next command."""
    for problem in facts.problems:
        if problem.severity is not ProblemSeverity.INFO:
            command = problem_texts.safe_command(problem, within=facts.key[0])
            return singularize(problem_texts.problem_text(problem)), command
    if not facts.waiters:
        return "", ""
    ask = f"kubectl dra explain pod {facts.waiters[0]} -n {facts.key[0]}"
    pod = cluster.pods.get((facts.key[0], facts.waiters[0]))
    condition = pod.condition(pods.POD_SCHEDULED) if pod is not None else None
    if condition is not None and condition.status == "False" and condition.message:
        return condition.message, ask
    return (f"gates: {', '.join(pod.gates)}" if pod is not None and pod.gates else ""), ask


def workload_cells(workload: ClaimWorkload) -> Cells:
    """Return the row of a workload of claims."""
    if workload.pods:
        state = "InUse"
    elif workload.fate == "finished":
        state = "Finished"
    else:
        state = "Waiting" if workload.waiting else "Reserved" if workload.devices else "Pending"
    counts = (workload.claims, workload.devices, workload.pods, workload.waiting)
    return (workload.namespace, workload.reference or NONE, state, *map(str, counts), workload.grade)


def device_cells(usage: DeviceUsage, holders: Iterable[ClaimDiagnosis]) -> Cells:
    """Return the row of a device; ``holders`` are the diagnoses of the claims that hold it."""
    row = device_row(usage)
    until = "; ".join(dict.fromkeys(describer.release_condition(holder) for holder in holders if holder.holds))
    return (*row.cells, *row.wide, until or NONE)


def node_state(node: AgentNode | None) -> str:
    """Return the state of a node, as kubectl get nodes shows it."""
    if node is None:
        return "Gone"
    ready = "Ready" if node.ready else "NotReady"
    return f"{ready},SchedulingDisabled" if node.spec.unschedulable else ready


NO_USE: Final = ("",) * len(USE_COLUMNS)
"""The cells of a node about whose use nothing is known."""


def use_cells(cluster: ClusterState, node: AgentNode, *, now: datetime) -> Cells:
    """Return the cells of `USE_COLUMNS` of a node."""
    use = colocation.node_use_of(cluster, node)
    sampled = colocation.sampled(cluster, node, now=now)
    if cluster.node_metrics is None and not use.offers_batch:
        return NO_USE
    state = sampled.sampling.value if sampled.sampling is not Sampling.UNREAD else ""
    return (
        _numbers(use.cpu.used, use.cpu.requested, use.cpu.capacity),
        _numbers(use.memory.used, use.memory.requested, use.memory.capacity),
        _numbers(use.cpu.held, use.cpu.offered) if use.cpu.offered is not None else "",
        _numbers(use.memory.held, use.memory.offered) if use.memory.offered is not None else "",
        f"{state} {sampled.at}".strip() if sampled.sampling is Sampling.STALE else state,
    )


def _numbers(*given: int | None) -> str:
    """Return numbers as a cell: those that are not known are empty; without the last one, which is the whole, none."""
    return "/".join("" if number is None else str(number) for number in given) if given[-1] is not None else ""


def reservation_cells(reservation: UnstructuredObject, claims: Iterable[ResourceClaim], *, now: datetime) -> Cells:
    """Return the row of a Reservation, with the begin and the end of its bar on the time line."""
    row = reservation_row(reservation, now=now, claims=claims)
    try:
        at = expiration_time(parse_reservation(reservation.content))
    except MalformedReservationError:
        at = NEVER
    end = "" if at == NEVER else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (*row.cells, *row.wide, reservation.metadata.creation_timestamp or "", end)


def migration_cells(migration: UnstructuredObject, nodes: dict[Key, str], *, now: datetime) -> Cells:
    """Return the row of a migration, with the begin and the latest end of its bar on the time line."""
    row = migration_row(migration, now=now, nodes=nodes)
    begin, end = migration.metadata.creation_timestamp or "", ""
    try:
        ttl = parse_pod_migration_job(migration.content).spec.ttl
    except MalformedPodMigrationJobError:
        ttl = None
    if begin and ttl is not None:
        seconds = datetime.fromisoformat(begin).timestamp() + ttl / SECOND
        end = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if ttl else ""
    return (*row.cells, *row.wide, begin, end)


def round_cells(facts: RoundDiagnosis) -> Cells:
    """Return the row of a round of descheduling."""
    counts = (facts.jobs, facts.unapproved, facts.waiting, facts.moving, facts.moved, facts.ended)
    return (facts.began, ", ".join(facts.profiles) or NONE, ", ".join(facts.plugins) or NONE, *map(str, counts))


def problem_cells(problem: Problem) -> Cells:
    """Return the row of a problem, with the command of its remedy if it is safe to paste."""
    row = audit.problem_row(problem)
    return (*row.cells, *row.wide, problem_texts.safe_command(problem))
