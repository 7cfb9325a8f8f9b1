"""Applies ClusterColocationProfiles, as the policies of deploy/colocation-profiles do on a real API server.

The profiles are read as they are, without the parameters that a real server needs: a plane evaluates no policies.
"""

from collections.abc import Mapping

from dra.engine.profiles.evaluation import evaluate
from dra.engine.profiles.guard import batch_refusals
from dra.engine.profiles.profiled_pods import profiled_pod
from dra.kube.resources import COLOCATION_PROFILES
from localplane.kinds import field_errors
from localplane.kinds.pod_defaults import compute_qos_class
from localplane.kinds.priority_classes import PRIORITY_CLASSES, set_pod_priority
from localplane.objects import Object, ObjectLister, metadata
from localplane.status_errors import FieldError


def admit_pod(pod: Object, objects: ObjectLister) -> list[FieldError]:
    """Change a new pod as the profiles say; return the errors of a batch pod whose requests would count wrongly.

    Without profiles there is no colocation, and nothing is refused.
    """
    stored = list(objects.list_objects(COLOCATION_PROFILES.label))
    if not stored:
        return []
    priorities = {
        metadata(priority_class)["name"]: priority_class.get("value", 0)
        for priority_class in objects.list_objects(PRIORITY_CLASSES)
    }
    profiles = evaluate(stored, priorities=priorities).profiles
    made = profiled_pod(pod, profiles, namespace_labels=_namespace_labels(pod, objects))
    if made != pod:
        pod.clear()
        pod.update(made)
        set_pod_priority(pod, objects)
        pod["status"]["qosClass"] = compute_qos_class(pod["spec"])
    return [field_errors.forbidden(refusal.path, refusal.text) for refusal in batch_refusals(pod)]


def _namespace_labels(pod: Object, objects: ObjectLister) -> Mapping[str, str]:
    namespace = objects.get_object("namespaces", metadata(pod).get("namespace", "")) or {"metadata": {}}
    return metadata(namespace).get("labels") or {}
