"""Translates requests of pods in Koordinator's form, as the policies of deploy/koordinator do on a real API server."""

from collections.abc import Iterable

from dra.api.koordinator import well_known
from dra.engine.translation.requests import Refusal
from dra.engine.translation.translated_pods import change_refusals, translate, translated_pod
from localplane.kinds import field_errors
from localplane.objects import Object, ObjectLister, metadata
from localplane.status_errors import FieldError


def admit_pod(pod: Object, objects: ObjectLister) -> list[FieldError]:
    """Translate a new pod in a namespace that has the label; return the errors of a pod without a translation."""
    if not _is_enabled(metadata(pod), objects):
        return []
    translation = translate(pod)
    if translation.entries:
        translated = translated_pod(pod, translation.entries)
        pod.clear()
        pod.update(translated)
    return _errors(translation.refusals)


def admit_pod_update(new: Object, old: Object, objects: ObjectLister) -> list[FieldError]:
    """Return the errors of an update that changes the classes or the bound CPUs of a pod."""
    changed = change_refusals(old, new)
    return _errors(changed) if changed and _is_enabled(metadata(new), objects) else []


def _is_enabled(meta: Object, objects: ObjectLister) -> bool:
    namespace = objects.get_object("namespaces", meta.get("namespace", "")) or {"metadata": {}}
    labels = metadata(namespace).get("labels") or {}
    return bool(labels.get(well_known.LABEL_ENABLED) == well_known.ENABLED)


def _errors(refusals: Iterable[Refusal]) -> list[FieldError]:
    return [field_errors.forbidden(refusal.path, refusal.text) for refusal in refusals]
