"""Templates of large pods, which an API server would refuse in a Reservation."""

import msgspec
import pytest

from dra.engine.migration.template_bulk import TEMPLATE_SIZE_MAX, without_bulk

REQUESTS = {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}
PORTS = [{"containerPort": 80, "hostPort": 80}]


def template(*, args=0, annotation=0, variables=0):
    container = {
        "name": "main",
        "image": "app",
        "resources": REQUESTS,
        "ports": PORTS,
        "args": ["x" * args],
        "env": [{"name": f"A{n}", "value": "b"} for n in range(variables)],
    }
    return {
        "namespace": "ml",
        "metadata": {"labels": {"app": "web"}, "annotations": {"short": "a", "long": "x" * annotation}},
        "spec": {
            "priorityClassName": "high",
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            "containers": [container],
            "initContainers": [{**container, "name": "init", "restartPolicy": "Always"}],
        },
    }


def test_the_template_of_a_usual_pod_is_complete():
    usual = template(args=1000, annotation=1000, variables=100)
    assert without_bulk(usual) == usual


@pytest.mark.parametrize(
    "large",
    [
        pytest.param(template(args=TEMPLATE_SIZE_MAX), id="a-script"),
        pytest.param(template(annotation=TEMPLATE_SIZE_MAX), id="an-annotation"),
        pytest.param(template(variables=3000), id="variables"),
    ],
)
def test_the_template_of_a_large_pod_keeps_what_decides_about_its_node(large):
    kept = without_bulk(large)
    assert len(msgspec.json.encode(kept)) < 4096
    container = {"name": "main", "image": "app", "resources": REQUESTS, "ports": PORTS}
    assert kept["spec"] == {
        "priorityClassName": "high",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "initContainers": [{**container, "name": "init", "restartPolicy": "Always"}],
    }
    assert kept["metadata"]["labels"] == {"app": "web"}
    assert "short" in kept["metadata"]["annotations"]
