"""What of the texts of a cluster may be published."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.cli.kubectl.verify import public_facts
from dra.engine.diagnosis.snapshot import InstalledDeployment
from tests.violations import for_each_case

PUBLIC = re.compile(
    r"(?:(?:containerd|cri-o|docker) )?"
    r"(?:v[0-9.]{5,12}(?:-gke\.[0-9]+|-eks-[0-9a-f]+|\+k3s[0-9]+|\+rke2r[0-9]+)?|other)"
)


@for_each_case(
    [
        pytest.param("v1.37.2", "v1.37.2", "other", id="upstream"),
        pytest.param("v1.34.1-gke.1829001", "v1.34.1-gke.1829001", "GKE", id="gke"),
        pytest.param("v1.34.2-eks-113cf36", "v1.34.2-eks-113cf36", "EKS", id="eks"),
        pytest.param("v1.35.0+k3s1", "v1.35.0+k3s1", "k3s", id="k3s"),
        pytest.param("v1.35.0+rke2r1", "v1.35.0+rke2r1", "RKE2", id="rke2"),
        pytest.param("v1.34.1-acme.build-host-7", "v1.34.1", "other", id="a-build-of-somebody"),
        pytest.param("v1.34.1-gke.1\nsecret", "v1.34.1", "other", id="a-known-suffix-and-more"),
        pytest.param("0.1.0", "v0.1.0", "other", id="without-a-letter"),
        pytest.param("ssh://host", "other", "other", id="no-version"),
    ]
)
def test_of_a_version_the_digits_stay_and_suffixes_of_known_platforms(text, version, platform):
    assert (public_facts.version_text(text), public_facts.platform_of(text)) == (version, platform)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("containerd://2.1.4", "containerd v2.1.4", id="containerd"),
        pytest.param("cri-o://1.34.0-rhaos.host", "cri-o v1.34.0", id="cri-o"),
        pytest.param("acme://1.0.0", "other", id="another"),
    ],
)
def test_container_runtimes(text, told):
    assert public_facts.runtime_text(text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("gce://acme-production/europe-west1-b/gke-node-7", "gce", id="gce"),
        pytest.param("aws:///eu-central-1a/i-0123456789", "aws", id="aws"),
        pytest.param("acme://host", "other", id="another"),
        pytest.param("", "none", id="none"),
    ],
)
def test_of_a_provider_id_only_the_scheme_stays(text, told):
    assert public_facts.provider_of(text) == told


METRICS = """\
# TYPE kubernetes_feature_enabled gauge
kubernetes_feature_enabled{name="DRADeviceTaints",stage="BETA"} 1
kubernetes_feature_enabled{name="GenericWorkload",stage="ALPHA"} 0
kubernetes_feature_enabled{name="SecretGateOfAcme",stage="ALPHA"} 1
apiserver_request_total{host="secret.example.com"} 7
"""


def test_only_known_feature_gates_are_told():
    assert public_facts.feature_gates(METRICS) == {"DRADeviceTaints": True, "GenericWorkload": False}


def test_a_component_of_another_name_is_not_named():
    deployment = InstalledDeployment(namespace="acme", name="acme", component="acme-host", desired=2, ready=1)
    assert public_facts.component_facts([deployment]) == [{"component": "other", "ready": 1, "desired": 2}]


@given(st.one_of(st.text(), st.from_regex(r"v1\.3[4-8]\.\d(-gke\.|-eks-|\+k3s).{0,20}")))
def test_no_text_of_a_cluster_leaves_the_closed_forms(text):
    assert PUBLIC.fullmatch(public_facts.version_text(text))
    assert PUBLIC.fullmatch(public_facts.runtime_text(f"containerd://{text}"))
    assert public_facts.provider_of(text) in public_facts.PROVIDERS | {"other", "none"}
    assert public_facts.platform_of(text) in {*public_facts.PLATFORMS.values(), "other"}
