"""Which pods may keep another one away from their topology domains."""

import msgspec
import pytest

from dra.engine.scheduling.pod_repulsion import may_repel, repelling_pods
from dra.model.diagnosed_pods import DiagnosedPod
from dra.model.scheduling import SchedulerPod
from tests.violations import for_each_case

WEB = {"matchLabels": {"app": "web"}}


def carrier(*terms, model=DiagnosedPod, phase="Running", kind="podAntiAffinity"):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term} for term in terms]}
    content = {"metadata": {"name": "a", "namespace": "ml", "uid": "a"}, "spec": {"affinity": {kind: required}}}
    return msgspec.convert(content | {"status": {"phase": phase}}, model)


@pytest.mark.parametrize(
    ("pod", "repels"),
    [
        pytest.param(carrier({"labelSelector": WEB}), True, id="anti-affinity"),
        pytest.param(carrier(), False, id="no-terms"),
        pytest.param(carrier({"labelSelector": WEB}, kind="podAffinity"), False, id="affinity"),
        pytest.param(carrier({"labelSelector": WEB}, phase="Succeeded"), False, id="ended"),
        pytest.param(carrier({"labelSelector": WEB}, model=SchedulerPod), False, id="read-without-affinity"),
    ],
)
def test_only_pods_with_required_anti_affinity_keep_others_away(pod, repels):
    assert bool(repelling_pods([pod])) is repels


@for_each_case(
    [
        pytest.param({"labelSelector": WEB}, "ml", True, id="in-its-namespace"),
        pytest.param({"labelSelector": WEB}, "prod", False, id="in-no-other"),
        pytest.param({"labelSelector": WEB, "namespaces": ["prod"]}, "prod", True, id="in-a-named-one"),
        pytest.param({"labelSelector": WEB, "namespaces": ["prod"]}, "ml", False, id="then-not-in-its-own"),
        pytest.param({"labelSelector": WEB, "namespaceSelector": {}}, "prod", True, id="in-all"),
        pytest.param(
            {"labelSelector": WEB, "namespaceSelector": {"matchLabels": {"team": "b"}}}, "prod", True, id="perhaps"
        ),
        pytest.param({"labelSelector": {}}, "ml", True, id="every-pod"),
        pytest.param({}, "ml", False, id="no-pod"),
        pytest.param({"labelSelector": {"matchLabels": {"app": "db"}}}, "ml", False, id="other-labels"),
    ]
)
def test_a_term_is_about_labels_and_namespaces(term, namespace, repelled):
    assert may_repel(carrier(term), namespace=namespace, labels={"app": "web"}) is repelled
