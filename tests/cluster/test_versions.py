"""Kinds are named in the version that the Kubernetes at hand serves."""

from __future__ import annotations

import pytest

from tests.cluster.versions import Kind, minor, numbers
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(Kind.POD_GROUP, "v1.37.2", "scheduling.k8s.io/v1beta1", id="groups-are-beta-in-1.37"),
        pytest.param(Kind.POD_GROUP, "v1.36.3", "scheduling.k8s.io/v1alpha2", id="groups-are-alpha-in-1.36"),
        pytest.param(Kind.POD_GROUP, "v1.34.4", "scheduling.k8s.io/v1alpha2", id="no-groups-yet"),
        pytest.param(Kind.POD_GROUP, "v1.38.0", "scheduling.k8s.io/v1beta1", id="a-later-one-as-the-last-known"),
        pytest.param(Kind.DEVICE_TAINT_RULE, "v1.37.2", "resource.k8s.io/v1", id="rules-are-stable-in-1.37"),
        pytest.param(Kind.DEVICE_TAINT_RULE, "1.36", "resource.k8s.io/v1beta2", id="rules-are-beta-in-1.36"),
        pytest.param(Kind.DEVICE_TAINT_RULE, "1.35.4", "resource.k8s.io/v1alpha3", id="rules-are-alpha-before"),
    ]
)
def test_a_kind_is_named_as_its_kubernetes_serves_it(kind: Kind, kubernetes: str, api_version: str) -> None:
    assert kind.api_version(kubernetes) == api_version


@pytest.mark.parametrize("text", ["", "2.0", "latest"])
def test_what_is_no_version_of_kubernetes_1_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a version of Kubernetes 1"):
        minor(text)


@pytest.mark.parametrize("text", ["1.37.2", "v1.37.2", "v1.37.2+vendor.1", "go1.37.2"])
def test_versions_are_compared_as_numbers(text: str) -> None:
    assert numbers("v1.9.10") < numbers("v1.37.1") < numbers(text) < numbers("v1.38.0-beta.0")
