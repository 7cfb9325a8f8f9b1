"""Evict pods that are too old, or in a state, with a condition or with an exit code that the arguments name.

The criteria that are given must all be met, as in the community's descheduler: ``states: [Pending]`` together with
``maxPodLifeTimeSeconds: 600`` evicts pods that are pending and older than 600 s, never a running one.
"""

from collections.abc import Iterator
from datetime import datetime

from dra.api.descheduler.pod_plugin_args import PodConditionFilter, PodLifeTimeArgs
from dra.engine.descheduling import pod_selection
from dra.engine.descheduling.pod_selection import Proposals
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.instants import WallTime
from dra.engine.migration.pod_index import WorkloadKey, workload_of
from dra.engine.migration.pod_state import created_at
from dra.model.pods import PodCondition


class PodLifeTime:
    """Evicts pods by age, state, condition or exit code; the oldest pod of all nodes goes first."""

    name = "PodLifeTime"
    Args = PodLifeTimeArgs

    def deschedule(self, snapshot: Snapshot, args: PodLifeTimeArgs) -> Proposals:
        """Yield the pods that meet all criteria.

        A pod that has not started stays while another pod of its workload is terminating: that pod was replaced a
        moment ago, and a new pod would only pull the same image again.
        """
        chosen = [
            (pod, reason)
            for _, pods in pod_selection.selected_pods(snapshot, args, with_ended=True)
            for pod in pods
            if (reason := self._reason(pod, snapshot, args))
        ]
        chosen.sort(key=lambda choice: (created_at(choice[0]), choice[0].metadata.key))
        terminating = _terminating_workloads(snapshot)
        waiting = 0
        for pod, reason in chosen:
            if pod.status.phase == "Pending" and workload_of(pod) in terminating:
                waiting += 1
            else:
                yield pod_selection.removal(pod, reason)
        text = "pending pods that stay until terminating pods of their workloads are gone"
        return f"{text}: {waiting}" if waiting else None

    def _reason(self, pod: DeschedulingPod, snapshot: Snapshot, args: PodLifeTimeArgs) -> str:
        """Return which criteria a pod meets; empty if it does not meet all."""
        if not args.owner_kinds.selects(pod_selection.owner_kinds(pod)):
            return ""
        met = []
        if args.max_pod_life_time_seconds is not None:
            age = snapshot.age(pod)
            if age <= args.max_pod_life_time_seconds:
                return ""
            met.append(f"{age} s old, more than maxPodLifeTimeSeconds {args.max_pod_life_time_seconds}")
        if args.states:
            state = next((state for state in _states(pod, args) if state in args.states), "")
            if not state:
                return ""
            met.append(f"in state {state}")
        if args.conditions:
            condition = _met_condition(pod, args, now=snapshot.now)
            if condition is None:
                return ""
            met.append(f"condition {condition.type} is {condition.status} ({condition.reason or 'no reason'})")
        if args.exit_codes:
            statuses = pod_selection.container_statuses(pod, initial=args.including_init_containers)
            code = next((code for code in pod_selection.exit_codes(statuses) if code in args.exit_codes), None)
            if code is None:
                return ""
            met.append(f"exit code {code}")
        return " and ".join(met)


def _states(pod: DeschedulingPod, args: PodLifeTimeArgs) -> Iterator[str]:
    yield pod.status.phase
    yield pod.status.reason
    yield from pod_selection.state_reasons(
        pod_selection.container_statuses(
            pod, initial=args.including_init_containers, ephemeral=args.including_ephemeral_containers
        )
    )


def _met_condition(pod: DeschedulingPod, args: PodLifeTimeArgs, *, now: WallTime) -> PodCondition | None:
    return next(
        (
            condition
            for condition in pod.status.conditions or ()
            if any(_meets(condition, wanted, now=now) for wanted in args.conditions)
        ),
        None,
    )


def _meets(condition: PodCondition, wanted: PodConditionFilter, *, now: WallTime) -> bool:
    if wanted.type is not None and condition.type != wanted.type:
        return False
    if wanted.status is not None and condition.status != wanted.status:
        return False
    if wanted.reason is not None and condition.reason != wanted.reason:
        return False
    shortest = wanted.min_time_since_last_transition_seconds
    if shortest is None:
        return True
    changed = _parse_time(condition.last_transition_time)
    return changed is not None and int(now - changed) >= shortest


def _parse_time(text: str | None) -> WallTime | None:
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None


def _terminating_workloads(snapshot: Snapshot) -> frozenset[WorkloadKey]:
    leaving = (workload_of(pod) for pod in snapshot.pods() if pod.metadata.deleting)
    return frozenset(workload for workload in leaving if workload is not None)
