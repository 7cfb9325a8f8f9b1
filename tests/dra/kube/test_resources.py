import re
from pathlib import Path

import pytest

from dra.kube import resources
from dra.kube.resources import CLAIMS, JOBS, NODES, PODS, InvalidNameError, Resource, group_path
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(PODS, (), "/api/v1/pods", id="core-all-namespaces"),
        pytest.param(PODS, ("ml",), "/api/v1/namespaces/ml/pods", id="core-one-namespace"),
        pytest.param(PODS, ("ml", "a"), "/api/v1/namespaces/ml/pods/a", id="core-object"),
        pytest.param(PODS, ("ml", "a", "eviction"), "/api/v1/namespaces/ml/pods/a/eviction", id="subresource"),
        pytest.param(NODES, (), "/api/v1/nodes", id="cluster-scoped"),
        pytest.param(NODES, ("", "n1"), "/api/v1/nodes/n1", id="cluster-scoped-object-by-key"),
        pytest.param(
            CLAIMS,
            ("ml", "a.b", "status"),
            "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/a.b/status",
            id="group",
        ),
    ]
)
def test_a_resource_has_the_path_that_it_is_served_under(resource, arguments, path):
    assert resource.path(*arguments) == path


@for_each_case(
    ["", ".", "..", "a/b", "a%2fb", "a/../b", "A", "a_b", "-a", "a-", "a..b", "a b", "a\n", "a?x=y", "é", "a" * 254],
)
def test_what_is_no_name_never_gets_into_a_path(name):
    with pytest.raises(InvalidNameError):
        PODS.path("ml", name)


@pytest.mark.parametrize("namespace", [".", "a.b", "a/b", "A", "a" * 64])
def test_a_namespace_is_a_label(namespace):
    with pytest.raises(InvalidNameError):
        PODS.path(namespace, "a")


@pytest.mark.parametrize("subresource", ["", "..", "status/x"])
def test_a_subresource_is_one_segment(subresource):
    with pytest.raises(InvalidNameError):
        PODS.path("ml", "a", subresource)


def test_an_object_of_a_namespaced_kind_has_a_namespace():
    with pytest.raises(InvalidNameError, match=r"^pods 'a': has no namespace$"):
        PODS.path(None, "a")


def test_an_object_of_a_cluster_scoped_kind_has_none():
    with pytest.raises(InvalidNameError):
        NODES.path("ml", "a")


@pytest.mark.parametrize(
    ("group", "version", "plural"),
    [("..", "v1", "a"), ("a.b", "v1/x", "a"), ("a.b", "v1", "a/b"), ("a.b", "..", "a"), ("a/b", "v1", "a")],
)
def test_a_kind_that_was_made_up_has_no_path_either(group, version, plural):
    with pytest.raises(InvalidNameError):
        Resource(group, version, plural, "A", namespaced=True)


def test_names_in_texts_and_metrics():
    assert JOBS.describe(("ml", "train")) == "Job ml/train"
    assert NODES.describe(("", "n1")) == "Node n1"
    assert (JOBS.label, PODS.label) == ("jobs.batch", "pods")
    assert (JOBS.api_version, PODS.api_version) == ("batch/v1", "v1")


def test_a_group_has_the_path_of_its_discovery():
    assert group_path("") == "/api"
    assert group_path("", "v1") == "/api/v1"
    assert group_path("ray.io") == "/apis/ray.io"
    assert group_path("ray.io", "v1") == "/apis/ray.io/v1"


DECLARATION = re.compile(r'Resource\(\s*"([^"]*)",\s*"[^"]*",\s*"([^"]*)"')


def test_a_kind_is_declared_once():
    """A second declaration beside that of `dra.kube.resources` would keep an older version of the API."""
    known = {(kind.group, kind.plural) for kind in vars(resources).values() if isinstance(kind, Resource)}
    root = Path(resources.__file__).parents[2]
    declared = [
        f"{path.relative_to(root)}: {plural}"
        for package in ("dra", "controller", "kubeletplugin", "localplane")
        for path in sorted((root / package).rglob("*.py"))
        if path != Path(resources.__file__)
        for group, plural in DECLARATION.findall(path.read_text())
        if (group, plural) in known
    ]
    assert not declared, "import them from dra.kube.resources"
