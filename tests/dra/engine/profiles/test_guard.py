"""Batch pods that are refused."""

import pytest

from dra.engine.profiles.guard import batch_refusals
from tests.dra.engine.profiles.examples import BATCH_CPU, BATCH_MEMORY, QOS, SKIP, container, pod
from tests.violations import for_each_case

BE = {QOS: "BE"}


def skipping(given):
    given["metadata"]["annotations"] = {SKIP: ""}
    return given


@for_each_case(
    [
        pytest.param(pod(container(requests={BATCH_CPU: "500"}), labels=BE), [], id="batch-resources"),
        pytest.param(pod(container(requests={"cpu": "1"})), [], id="no-batch-pod"),
        pytest.param(
            pod(container(requests={BATCH_CPU: "1", "nvidia.com/gpu": "1"}), labels=BE), [], id="other-resources"
        ),
        pytest.param(
            pod(container(requests={BATCH_CPU: "500"}), container("sidecar", limits={"cpu": "1"}), labels=BE),
            ["container sidecar: requests cpu or memory"],
            id="a-sidecar-injected-after-the-profile",
        ),
        pytest.param(
            pod(container(), initContainers=[container("init", requests={"memory": "1Gi"})], labels=BE),
            ["container init: requests cpu or memory"],
            id="an-init-container",
        ),
        pytest.param(
            pod(container(), labels=BE, resources={"requests": {"cpu": "1"}}),
            ["spec.resources: "],
            id="resources-of-the-whole-pod",
        ),
        pytest.param(
            pod(container(requests={BATCH_CPU: "200m"}), labels=BE),
            ["batch-cpu has a fraction, but counts milli-CPUs; write 200"],
            id="a-fraction-of-a-milli-cpu",
        ),
        pytest.param(
            pod(container(requests={BATCH_MEMORY: "1500m"}), labels=BE),
            ["has a fraction, but counts bytes"],
            id="a-fraction-of-a-byte",
        ),
        pytest.param(
            pod(container(requests={BATCH_CPU: "200"})),
            ["must specify koordinator QoS BE"],
            id="batch-without-the-class",
        ),
        pytest.param(
            skipping(pod(container(requests={"cpu": "1"}), labels=BE)), [], id="a-profile-that-skips-resources"
        ),
    ]
)
def test_refusals(given, texts):
    found = list(map(str, batch_refusals(given)))
    assert len(found) == len(texts)
    for text, wanted in zip(found, texts, strict=True):
        assert wanted in text
