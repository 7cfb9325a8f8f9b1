"""Arbitration as its rules read: each job counts everything from the objects anew; the oracle of the tests.

Quadratic, and without an index. Which pods may be evicted at all is asked of the engine, which has tables of its own.
"""

from dra.api.migration.model import EvictionPolicy, MigrationMode
from dra.engine.migration import evictability
from dra.engine.migration.limits import effective_args, workload_limit
from dra.engine.migration.order import evict_first_key
from dra.engine.migration.reasons import MigrationReason as Reason

PASSED = "descheduler.koordinator.sh/passed-arbitration"
WORKLOAD = "reserve.dra/migrated-workload"
FORBIDDEN = Reason.FORBIDDEN_MIGRATE_POD


def arbitrate(view, pods, *, args, now):
    """Return pairs of a job's name and the reason for which the job may not begin (None: passes), in their order."""
    begun = [each for each in view.jobs if is_unfinished(each) and has_begun(each)]
    verdicts = []
    for job, pod in in_order(view, pods, begun):
        reason = refusal(view, pods, job, pod, args) or wait(view, pods, begun, job, pod, args=args, now=now)
        verdicts.append((job.metadata.name, reason))
        if reason is None:
            begun.append(job)
    return verdicts


def is_unfinished(job):
    return job.status.phase in ("Pending", "Running")


def has_begun(job):
    return job.status.phase == "Running" or job.metadata.annotations.get(PASSED) == "true"


def pod_of(job, pods):
    given = job.spec.pod_ref
    named = (each for each in pods if each.metadata.key == (given.namespace, given.name))
    return next((each for each in named if given.uid in ("", each.metadata.uid)), None)


def controller(pod):
    return next((each for each in pod.metadata.owner_references or () if each.controller), None)


def key_of(pod):
    """Return the workload of a pod: what its reference says, and its namespace; None for a bare pod."""
    owner = controller(pod)
    group = owner.api_version.rpartition("/")[0] if owner else ""
    return (pod.metadata.namespace, group, owner.kind, owner.name, owner.uid) if owner else None


def workload_of(job, pods):
    """Return namespace and uid of the workload that a job counts for."""
    pod = pod_of(job, pods)
    uid = job.metadata.annotations.get(WORKLOAD) if pod is None else (key_of(pod) or ("",))[-1]
    return (job.spec.pod_ref.namespace, uid) if uid else None


def created(job):
    return job.metadata.creation_timestamp.timestamp()


def in_order(view, pods, begun):
    """Sort several times, as Koordinator does: each sort is stable and counts more than the one before."""
    waiting = [each for each in view.jobs if is_unfinished(each) and not has_begun(each) and not each.spec.paused]
    found = [(job, pod) for job in waiting if (pod := pod_of(job, pods)) is not None]
    found.sort(key=lambda each: (each[1].metadata.key, each[0].metadata.name))
    found.sort(key=lambda each: -created(each[0]))
    found.sort(key=lambda each: evict_first_key(each[1]))
    groups = [uid if (uid := batch_job(pod)) else job.metadata.uid for job, pod in found]
    ranks = sorted(range(len(found)), key=lambda rank: groups.index(groups[rank]))
    migrating = [workload_of(each, pods) for each in begun]
    ranks.sort(key=lambda rank: -migrating.count(groups[rank]))
    return [found[rank] for rank in ranks]


def batch_job(pod):
    owner = controller(pod)
    return (pod.metadata.namespace, owner.uid) if owner is not None and owner.kind == "Job" else None


def refusal(view, pods, job, pod, args):
    rivals = [each for each in view.jobs if is_unfinished(each) and pod_of(each, pods) is pod]
    first = min(rivals, key=lambda each: (not has_begun(each), created(each), each.metadata.name))
    mode = job.spec.mode or args.default_job_mode
    if first is not job or evictability.refusal(pod, args=effective_args(args), mode=mode):
        return FORBIDDEN
    if policy_of(job, args) == EvictionPolicy.EVICTION and protected(pod) and len(covering(view, pod)) > 1:
        return FORBIDDEN
    owner = controller(pod)
    by_person = "koordinator.sh/job-created-by" not in job.metadata.annotations
    is_free = args.skip_check_expected_replicas or "ExpectedReplicas" in args.skip_eviction_gates
    is_free = is_free or "descheduler.alpha.kubernetes.io/evict" in (pod.metadata.annotations or {})
    if owner is None or is_free or (by_person and mode is MigrationMode.RESERVATION_FIRST):
        return None
    replicas = replicas_of(view, pods, key_of(pod))
    given = (args.max_migrating_per_workload, args.max_unavailable_per_workload)
    return FORBIDDEN if replicas in (1, *(limit_of(view, key_of(pod), each) for each in given)) else None


def wait(view, pods, begun, job, pod, *, args, now):
    there = {each.metadata.uid: each for other in begun if (each := pod_of(other, pods)) is not None}
    away = [each for each in there.values() if each.spec.node_name == pod.spec.node_name]
    same_namespace = [each for each in begun if each.spec.pod_ref.namespace == pod.metadata.namespace]
    skipped = args.skip_eviction_gates
    if is_reached(len(begun), args.max_migrating_globally) and "MaxMigratingGlobally" not in skipped:
        return Reason.MAX_MIGRATING_GLOBALLY
    is_node_reached = pod.spec.node_name and is_reached(len(away), args.max_migrating_per_node)
    if is_node_reached and "MaxMigratingPerNode" not in skipped:
        return Reason.MAX_MIGRATING_PER_NODE
    if is_reached(len(same_namespace), args.max_migrating_per_namespace) and "MaxMigratingPerNamespace" not in skipped:
        return Reason.MAX_MIGRATING_PER_NAMESPACE
    reason = workload_wait(view, pods, begun, pod, args=args, now=now) if controller(pod) is not None else None
    return reason or budget_wait(view, pods, job, pod, there.values(), args)


def workload_wait(view, pods, begun, pod, *, args, now):
    workload = key_of(pod)
    mine = [each for each in begun if workload_of(each, pods) == (workload[0], workload[-1])]
    skipped = args.skip_eviction_gates
    limit = limit_of(view, workload, args.max_migrating_per_workload)
    if len(mine) >= limit and "MaxMigratingPerWorkload" not in skipped:
        return Reason.MAX_MIGRATING_PER_WORKLOAD
    if not pod.spec.node_name:
        return None
    migrating = [pod_of(each, pods) for each in mine]
    others = [each for each in members(pods, workload) if each is not pod]
    unavailable = [each for each in others if not serves(each) or each in migrating]
    limit = limit_of(view, workload, args.max_unavailable_per_workload)
    if len(unavailable) >= limit and "MaxUnavailablePerWorkload" not in skipped:
        return Reason.MAX_UNAVAILABLE_PER_WORKLOAD
    return Reason.OBJECT_LIMITER if is_rate_reached(view, pods, begun, workload, args=args, now=now) else None


def is_reached(count, limit):
    return bool(limit) and count >= limit


def members(pods, workload):
    return [each for each in pods if not each.terminal and key_of(each) == workload]


def replicas_of(view, pods, workload):
    return view.replicas.get(workload, len(members(pods, workload)))


def limit_of(view, workload, given):
    return workload_limit(view.replicas[workload], given) if workload in view.replicas else 1


def ready(pod):
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())


def serves(pod):
    return ready(pod) and not pod.metadata.deleting


def evicted_at(job):
    found = job.status.condition("Eviction")
    return found.last_transition_time.timestamp() if found is not None and found.status == "True" else None


def is_rate_reached(view, pods, begun, workload, *, args, now):
    limiter = args.object_limiters.workload
    if not limiter.duration:
        return False
    start = now - limiter.duration / 10**9
    mine = (workload[0], workload[-1])
    of_workload = [each for each in view.jobs if workload_of(each, pods) == mine]
    recent = [at for each in of_workload if (at := evicted_at(each)) is not None and at > start]
    to_evict = [each for each in begun if workload_of(each, pods) == mine and evicted_at(each) is None]
    placed = [each for each in to_evict if (pod := pod_of(each, pods)) is None or pod.spec.node_name]
    given = limiter.max_migrating if limiter.max_migrating is not None else args.max_migrating_per_workload
    return len(recent) + len(placed) >= limit_of(view, workload, given)


def policy_of(job, args):
    return job.metadata.labels.get("koordinator.sh/evict-policy") or args.eviction_policy


def protected(pod):
    return pod.status.phase == "Running" and not pod.metadata.deleting


def covering(view, pod):
    return [each for each in view.disruption_budgets if each.covers(pod.metadata)]


def healthy(budget, pods):
    """Return how many pods the disruption controller will count as healthy once it has seen all pods."""
    return sum(
        budget.covers(each.metadata) and serves(each) and each.metadata.name not in budget.status.disrupted_pods
        for each in pods
    )


def asks(budget, pod, pods):
    """Return whether the eviction API asks a PodDisruptionBudget."""
    status = budget.status
    count = min(status.current_healthy, healthy(budget, pods))
    unhealthy_pass = budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    unhealthy_pass |= count >= status.desired_healthy > 0
    return protected(pod) and (ready(pod) or not unhealthy_pass)


def budget_wait(view, pods, job, pod, migrating, args):
    policy = policy_of(job, args)
    for budget in covering(view, pod) if policy == EvictionPolicy.EVICTION else ():
        status = budget.status
        used = [each for each in migrating if budget in covering(view, each) and asks(budget, each, pods)]
        used = [each for each in used if each.metadata.name not in status.disrupted_pods]
        is_stale = budget.metadata.generation > status.observed_generation
        allowed = min(status.disruptions_allowed, healthy(budget, pods) - status.desired_healthy)
        if asks(budget, pod, pods) and (is_stale or allowed <= len(used)):
            return Reason.POD_DISRUPTION_BUDGET
    for budget in view.unavailable_budgets if policy != EvictionPolicy.SOFT_EVICTION else ():
        protects = [each for each in pods if serves(each) and needs_available(budget, each)]
        used = [each for each in migrating if each in protects]
        allowed = min(budget.status.unavailable_allowed, len(protects) - budget.status.desired_available)
        if pod in protects and budget.status.desired_available and allowed <= len(used):
            return Reason.POD_UNAVAILABLE_BUDGET
    return None


def needs_available(budget, pod):
    """Return whether a PodUnavailableBudget counts a pod as available, and has not recorded its end."""
    target, owner = budget.spec.target_ref, controller(pod)
    if pod.metadata.name in budget.status.disrupted_pods or pod.metadata.name in budget.status.unavailable_pods:
        return False
    if target is not None:
        return owner is not None and (owner.kind, owner.name) == (target.kind, target.name)
    return budget.spec.selector.match_labels.items() <= (pod.metadata.labels or {}).items()
