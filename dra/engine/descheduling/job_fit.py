"""The rule ``nodeFit`` of MigrationControllerArgs, asked for the pods of waiting jobs."""

from collections.abc import Mapping

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.migration.limits import effective_args
from dra.model.meta import Uid


def unfit_pods(snapshot: Snapshot, *, args: MigrationControllerArgs) -> Mapping[Uid, str]:
    """Return the pods of unfinished jobs that fit on no other node, each with the reason; empty without ``nodeFit``.

    `ArbitrationView.unfit` takes the result. Only nodes that match ``nodeSelector`` count.
    """
    in_force = effective_args(args)
    if not in_force.node_fit:
        return {}
    selector = in_force.node_selector
    among = frozenset(
        name for name, node in snapshot.nodes.items() if selector is None or selector.selects(node.labels)
    )
    keys = {job.spec.pod_ref.key for job in snapshot.objects.jobs}
    which = "no other node" if selector is None else "no other node that nodeSelector selects"
    return {
        pod.metadata.uid: f"pod {'/'.join(pod.metadata.key)}: fits on {which} (nodeFit)"
        for pod in snapshot.objects.pods
        if pod.metadata.key in keys
        and (own := pod.spec.node_name)
        and not snapshot.fitting_node(pod, among=among - {own})  # the pod of a job has left it in the snapshot
    }
