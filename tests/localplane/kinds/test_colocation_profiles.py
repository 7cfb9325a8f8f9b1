"""Profiles on the local plane, which evaluates no policies and applies profiles to new pods itself."""

import pytest

from localplane.kinds.colocation_profiles import admit_pod
from tests.dra.engine.profiles.examples import (
    BATCH_CPU,
    BATCH_MEMORY,
    ENABLED,
    MANUAL,
    PRIORITIES,
    QOS,
    container,
    manifest,
    pod,
)


class Objects:
    """The objects of a plane."""

    def __init__(self, *profiles, namespace_labels):
        classes = [{"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
        self._collections = {
            "clustercolocationprofiles.config.koordinator.sh": list(profiles),
            "priorityclasses.scheduling.k8s.io": classes,
            "namespaces": [{"metadata": {"name": "ml", "labels": namespace_labels}}],
        }

    def list_objects(self, collection):
        return self._collections[collection]

    def get_object(self, collection, name, *, namespace=""):
        del namespace
        return next((each for each in self._collections[collection] if each["metadata"]["name"] == name), None)


def admitted(given, *profiles, namespace_labels=ENABLED):
    """Return the errors of a pod, which is changed in place."""
    given["metadata"]["namespace"] = "ml"
    given["spec"]["preemptionPolicy"] = "PreemptLowerPriority"
    given["status"] = {"qosClass": "Burstable"}
    return admit_pod(given, Objects(*profiles, namespace_labels=namespace_labels))


def test_a_pod_of_a_labelled_namespace_becomes_a_batch_pod():
    given = pod(container(requests={"cpu": "570m", "memory": "1Gi"}), labels=ENABLED)
    assert admitted(given, manifest(MANUAL)) == []
    assert given["spec"]["containers"][0]["resources"] == {"requests": {BATCH_CPU: "570", BATCH_MEMORY: "1Gi"}}
    assert (given["spec"]["priority"], given["status"]["qosClass"]) == (5500, "BestEffort")


@pytest.mark.parametrize("profiles", [[manifest(MANUAL)], []], ids=["no-label-on-the-namespace", "no-profiles"])
def test_other_pods_stay_as_they_are(profiles):
    given = pod(container(requests={"cpu": "1"}), labels=ENABLED)
    assert admitted(given, *profiles, namespace_labels={}) == []
    assert given["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


def test_a_batch_pod_with_plain_cpu_is_refused_with_the_name_of_the_container():
    given = pod(container("sidecar", requests={"cpu": "1"}), labels={QOS: "BE"})
    (error,) = admitted(given, manifest(MANUAL))
    assert "container sidecar" in str(error)
