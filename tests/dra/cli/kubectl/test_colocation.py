"""Profiles in manifests for servers without policies, and the explanation for one pod."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from dra.cli.kubectl.colocation.manifest_profiles import ManifestProfiles
from dra.cli.kubectl.colocation.profile_explanation import manifest_pods
from dra.cli.kubectl.colocation.profile_reader import ReadProfiles
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.koordinator_requests import MUTATING_POLICIES
from dra.cli.kubectl.manifests import MalformedManifestError
from dra.engine.profiles.explanation import explain
from dra.kube.codec import ListPage
from dra.kube.errors import NotFound, Status
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.preemption import PriorityClass
from tests.dra.engine.profiles.examples import (
    BATCH_CPU,
    ENABLED,
    MANUAL,
    PRIORITIES,
    QOS,
    container,
    evaluated,
    manifest,
    pod,
    profile,
)


class Server:
    """The client of an API server with profiles, or without the kind (None)."""

    def __init__(self, profiles: list[dict[str, Any]] | None, *, served: tuple[str, ...] = ()) -> None:
        self._profiles, self._served = profiles, served

    async def read(self, path: str, model: type[Any]) -> Any:
        del path
        return msgspec.convert({"resources": [{"name": name} for name in self._served]}, model)

    async def get(self, resource: Any, key: tuple[str, str], model: type[Any]) -> Any:
        del resource
        return msgspec.convert({"metadata": {"name": key[1], "labels": ENABLED}}, model)

    async def list_pages(self, resource: Any, model: type[Any]) -> Any:
        del model
        if self._profiles is None:
            raise NotFound("clustercolocationprofiles", Status(code=404))
        items: list[Any] = [
            UnstructuredObject(metadata=ObjectMeta(name=each["metadata"]["name"]), content=each)
            for each in self._profiles
        ]
        if resource.kind == "PriorityClass":
            items = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in PRIORITIES.items()]
        yield ListPage(items=items, resource_version="1", token="")


def applied(given: dict[str, Any], server: Server) -> dict[str, Any]:
    """Return a manifest as it is applied."""
    profiles = ManifestProfiles(Connection(client=server, transport=None))  # type: ignore[arg-type]
    return asyncio.run(profiles.applied(given, namespace="ml"))


def job(template: dict[str, Any]) -> dict[str, Any]:
    del template["spec"]["priority"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}


def test_the_pod_template_of_a_manifest_gets_its_profiles():
    given = job(pod(container(limits={"cpu": "1"}), labels=ENABLED))
    template = applied(given, Server([manifest(MANUAL)]))["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"] == {BATCH_CPU: "1000"}
    assert template["spec"]["priorityClassName"] == "koord-batch"
    assert "priority" not in template["spec"]


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(Server([manifest(MANUAL)], served=(MUTATING_POLICIES,)), id="server-applies-profiles"),
        pytest.param(Server(None), id="no-such-kind"),
        pytest.param(Server([]), id="no-profiles"),
        pytest.param(Server([profile(selector={"matchLabels": {"a": "b"}}, schedulerName="x")]), id="not-selected"),
    ],
)
def test_other_manifests_are_applied_as_they_are(server):
    given = job(pod(container(limits={"cpu": "1"}), labels=ENABLED))
    assert applied(given, server) is given


def test_the_class_of_a_template_counts_by_its_value():
    server = Server([profile(schedulerName="s")])
    given = job(pod(container(requests={"cpu": "1"}), labels={QOS: "BE"}, priorityClassName="koord-batch"))
    made = applied(given, server)
    assert made["spec"]["template"]["spec"]["containers"][0]["resources"] == {"requests": {BATCH_CPU: "1000"}}
    with pytest.raises(MalformedManifestError, match="requests cpu or memory"):
        applied(job(pod(container(requests={"cpu": "1"}), labels={QOS: "BE"}, priorityClassName="koord-mid")), server)


def test_a_refused_pod_is_an_error_with_the_path_of_the_template():
    given = job(pod(container(requests={"cpu": "1"}), labels={QOS: "BE"}))
    chosen = Server([profile(selector={"matchLabels": {"a": "b"}}, schedulerName="x")])
    with pytest.raises(MalformedManifestError, match=r"spec\.template\.container main: requests cpu or memory"):
        applied(given, chosen)


def answers(given, *profiles, namespace_labels=ENABLED, in_effect=("be",)):
    given["metadata"]["namespace"] = "ml"
    return [
        (each.applies, each.text)
        for each in explain(evaluated(*profiles), given, namespace_labels=namespace_labels, in_effect=in_effect)
    ]


BE = profile(
    "be", qosClass="BE", namespaceSelector={"matchLabels": ENABLED}, selector={"matchLabels": {"app": "spark"}}
)


@pytest.mark.parametrize(
    ("labels", "namespace_labels", "in_effect", "text"),
    [
        pytest.param(
            {"app": "spark"},
            {},
            ["be"],
            "namespace ml does not meet koordinator.sh/enable-colocation=true; pods that are created once it has label "
            "koordinator.sh/enable-colocation=true get the profile",
            id="the-namespace-needs-the-label-too",
        ),
        pytest.param({}, ENABLED, ["be"], "the pod does not meet app=spark", id="the-pod-lacks-the-label"),
        pytest.param({"app": "spark"}, ENABLED, [], "see: kubectl dra colocation apply --dry-run", id="not-in-effect"),
        pytest.param(
            {"app": "spark"}, ENABLED, ["be"], f"the pod lacks label {QOS}=BE: the pod is older", id="an-older-pod"
        ),
        pytest.param({"app": "spark", QOS: "BE"}, ENABLED, ["be"], "applies", id="applies"),
        pytest.param({"app": "spark", QOS: "BE"}, ENABLED, [], "applies", id="applied-by-dra-apply-without-a-policy"),
    ],
)
def test_the_first_test_that_fails_is_named(labels, namespace_labels, in_effect, text):
    ((applies, found),) = answers(pod(labels=labels), BE, namespace_labels=namespace_labels, in_effect=in_effect)
    assert text in found
    assert applies == (text == "applies")


def test_a_profile_that_no_policy_can_apply_says_why():
    ((applies, found),) = answers(pod(), profile("be", probability="10%"))
    assert not applies
    assert "spec.probability" in found


def test_a_conflict_is_named_on_the_pod():
    given = pod(labels={"team": "b"})
    found = answers(given, profile("a", labels={"team": "a"}), profile("b", labels={"team": "b"}), in_effect=["a", "b"])
    assert [applies for applies, _ in found] == [False, True]
    assert "metadata.labels[team] is set differently by a and b: b wins" in found[1][1]


def test_a_profile_that_shows_on_no_pod_does_not_apply_before_it_is_in_effect():
    ((applies, found),) = answers(pod(labels={QOS: "BE"}), profile("be"), in_effect=[])
    assert not applies
    assert "not in effect" in found


def test_a_profile_that_has_changed_since_is_not_in_effect_as_it_is():
    before, now = evaluated(profile("be", qosClass="LS")), evaluated(profile("be", qosClass="BE"))
    read = ReadProfiles(evaluation=now, parameters=before.parameters)
    assert (read.in_effect, read.in_effect_unchanged) == (["be"], [])
    assert ReadProfiles(evaluation=now, parameters=now.parameters).in_effect_unchanged == ["be"]


def test_a_deleted_profile_that_is_still_in_effect_is_told():
    before, now = evaluated(profile("a", qosClass="BE"), BE), evaluated(BE)
    assert ReadProfiles(evaluation=now, parameters=before.parameters).deleted == ["a"]
    assert ReadProfiles(evaluation=now, parameters=None).deleted == []


def test_without_policies_all_profiles_are_taken_as_they_are():
    read = ReadProfiles(evaluation=evaluated(BE), parameters=None, has_policies=False)
    assert read.in_effect_unchanged == ["be"]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        pytest.param({"app": "spark"}, "applies", id="a-pod-that-was-refused-and-does-not-exist"),
        pytest.param({}, "the pod does not meet app=spark", id="not-selected"),
    ],
)
def test_a_manifest_is_explained_as_if_it_were_created_now(labels, text):
    given = pod(labels=labels)
    given["metadata"]["namespace"] = "ml"
    (found,) = explain(evaluated(BE), given, namespace_labels=ENABLED, in_effect=["be"], is_created=False)
    assert text in found.text


def test_the_pods_and_templates_of_manifests_are_explained_in_their_namespaces(tmp_path):
    template = {"metadata": {"labels": ENABLED}, "spec": {"containers": []}}
    file = tmp_path / "all.json"
    file.write_text(
        json.dumps(
            {
                "kind": "List",
                "items": [
                    {**job(pod(labels=ENABLED)), "metadata": {"name": "j", "namespace": "spark"}},
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
                    {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"generateName": "p-"}},
                    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "empty"}},
                    {"apiVersion": "v1", "kind": "Pod", "metadata": ["wrong"], "spec": {}},
                ],
            }
        )
    )
    found = list(manifest_pods([str(file)], requested=None, default="ml"))
    assert [(each.namespace, each.prefix) for each in found] == [
        ("spark", "Job j: "),
        ("ml", "Pod (without a name): "),
    ]
    assert found[0].content["metadata"]["labels"] == ENABLED
