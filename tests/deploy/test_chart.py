"""The Helm chart without a cluster; what a real server says to it is tests/scenarios/test_chart.py."""

from __future__ import annotations

import re
import shlex
import shutil
import textwrap
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

from dra.api.chart import ChartValues
from dra.api.configuration import ControllerConfiguration, ControllerMode
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.extender_configuration import ExtenderConfiguration
from dra.api.page_configuration import PageConfiguration
from dra.cli.main import main
from release import chart_schema
from release.project import read_project
from tests.cluster import binaries, charts
from tests.commands import unknown_commands
from tests.deploy import combinations
from tests.deploy.likeness import RUNS, by_identity, comparable, kustomized

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
VALUES = yaml.safe_load((charts.CHART / "values.yaml").read_text())

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl renders kustomizations")


@pytest.fixture(scope="session", autouse=True)
def helm():
    try:
        binaries.build(binaries.helm())
    except binaries.NoGoError as error:
        pytest.skip(f"the chart is not rendered: {error}")


def refusal(values):
    with pytest.raises(charts.HelmError) as refused:
        charts.rendered(values)
    return str(refused.value)


def test_the_schema_is_what_the_models_make():
    assert chart_schema.SCHEMA.read_text() == chart_schema.text(), "run: make chart"


def test_values_yaml_shows_every_value_with_its_default():
    shown = {**VALUES, "policies": dict.fromkeys(VALUES["policies"], False)}
    defaults = ChartValues(policies=shown["policies"]).model_dump(mode="json", by_alias=True)
    for field in chart_schema.OWNED_BY_THE_CHART:
        section, _, name = field.rpartition(".")
        del (defaults["config"][section] if section else defaults["config"])[name]
    assert shown == defaults


def test_every_policy_has_a_switch():
    assert list(VALUES["policies"]) == chart_schema.policies()


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((charts.CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == chart["version"] == project["version"]
    for kustomization in (
        "kustomize/base",
        "kubelet-plugin",
        "reservations",
        "descheduler",
        "page",
        "colocation-profiles",
    ):
        (image,) = yaml.safe_load((ROOT / "deploy" / kustomization / "kustomization.yaml").read_text())["images"]
        assert image == {"name": "dra-reserve", "newTag": project["version"]}


# What is installed is what the kustomizations install


@needs_kubectl
@pytest.mark.parametrize(
    ("folder", "values", "without"),
    [
        pytest.param("kustomize/alongside", {}, {"Namespace"}, id="alongside"),
        pytest.param("kustomize/replace", {"mode": "replace"}, {"Namespace"}, id="replace"),
        pytest.param("kubelet-plugin", {"kubeletPlugin": {"enabled": True}}, set(), id="plugin"),
        pytest.param(
            "kubelet-plugin-nvidia",
            {"kubeletPlugin": {"enabled": True, "gpu": {"enabled": True}}},
            set(),
            id="plugin-nvidia",
        ),
        pytest.param(
            "kubelet-plugin-static",
            {"kubeletPlugin": {"enabled": True, "cpu": {"devices": "node", "besideStatic": True}}},
            set(),
            id="plugin-static",
        ),
        pytest.param("reservations", {"reservations": {"enabled": True}}, set(), id="reservations"),
        pytest.param(
            "reservations-yielding",
            {"reservations": {"enabled": True, "placeholders": "yielding"}},
            set(),
            id="reservations-without-extender",
        ),
        pytest.param("descheduler", {"descheduler": {"enabled": True}}, set(), id="descheduler"),
        pytest.param("page", {"page": {"enabled": True}}, set(), id="page"),
        pytest.param("koordinator", {"koordinator": {"enabled": True}}, set(), id="koordinator"),
        pytest.param(
            "koordinator-priority-classes",
            {"koordinator": {"priorityClasses": True}},
            set(),
            id="koordinator-priority-classes",
        ),
        pytest.param(
            "colocation-profiles", {"colocation": {"profiles": {"enabled": True}}}, set(), id="colocation-profiles"
        ),
    ],
)
def test_chart_and_kustomization_install_the_same(folder, values, without):
    expected = comparable([obj for obj in kustomized(folder) if obj["kind"] not in without])
    found = comparable(charts.rendered(values))
    if not folder.startswith("kustomize"):  # the release has the controller as well
        of_the_controller = comparable(charts.rendered({})).keys()
        found = {key: obj for key, obj in found.items() if key not in of_the_controller}
    assert found.keys() == expected.keys()
    for key, obj in expected.items():
        assert found[key] == obj, key


@needs_kubectl
def test_chart_and_kustomization_install_colocation_with_the_same_objects():
    values = {"colocation": {"enabled": True}, "kubeletPlugin": {"enabled": True}}
    found, expected = comparable(charts.rendered(values)), comparable(kustomized("colocation"))
    of_the_controller = comparable(charts.rendered({})).keys()
    assert found.keys() - of_the_controller == expected.keys()
    for key, obj in expected.items():
        assert found[key] == obj, key


def test_without_plugins_nodes_get_no_rights_for_colocation():
    made = comparable(charts.rendered({"colocation": {"enabled": True}}))
    assert not [key for key in made if "kubelet-plugin" in key[2] or "own-node" in key[2]]


@needs_kubectl
def test_chart_and_kustomization_report_devices_with_the_same_objects():
    def of_plugin(**gpu):
        return comparable(charts.rendered({"kubeletPlugin": {"enabled": True, "gpu": {"enabled": True, **gpu}}}))

    without, reporting = of_plugin(), of_plugin(koordinatorDevices=True)
    added = {key: obj for key, obj in reporting.items() if key not in without}
    assert added == comparable(kustomized("koordinator-devices"))


@pytest.mark.parametrize(
    ("devices", "reports"), [pytest.param("node", True, id="node"), pytest.param("grouped", False, id="grouped")]
)
def test_plugins_that_choose_the_cpus_of_a_node_may_report_in_claims(devices, reports):
    plugin = {"enabled": True, "cpu": {"enabled": True, "devices": devices}}
    made = comparable(charts.rendered({"kubeletPlugin": plugin}))
    assert (("ClusterRole", "", "dra-reserve-kubelet-plugin-claim-status") in made) is reports
    assert (("ClusterRoleBinding", "", "dra-reserve-kubelet-plugin-claim-status") in made) is reports


def test_helm_finds_nothing_to_say_about_it():
    assert "0 chart(s) failed" in charts.helm("lint", "--strict", str(charts.CHART))


# What may be said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"mood": "replace"}, "'mood' not allowed", id="unknown"),
        pytest.param({"mode": "both"}, "'alongside'", id="no-such-mode"),
        pytest.param({"config": {"qbs": 1}}, "'qbs' not allowed", id="unknown-field-of-the-configuration"),
        pytest.param({"config": {"mode": "replace"}}, "'mode' not allowed", id="owned-by-the-chart"),
        pytest.param({"config": {"leaderElection": {"name": "x"}}}, "'name' not allowed", id="lease-of-another-name"),
        pytest.param({"config": {"leaderElection": {"leaseSeconds": 2}}}, "minimum", id="out-of-range"),
        pytest.param({"controller": {"replicas": -1}}, "minimum", id="fewer-than-none"),
        pytest.param({"policies": {"gates": True}}, "'gates' not allowed", id="no-such-policy"),
        pytest.param({"reservations": {"extender": {"bindSeconds": 9}}}, "maximum", id="bind-after-the-scheduler"),
        pytest.param({"config": {"reservations": True}}, "'reservations' not allowed", id="reservations-elsewhere"),
        pytest.param({"descheduler": {"migration": {"evictQPS": 0}}}, "exclusive", id="no-evictions"),
        pytest.param({"descheduler": {"migration": {"evictQps": 1}}}, "'evictQps' not allowed", id="no-such-limit"),
        pytest.param({"image": {"digest": "latest"}}, "pattern", id="no-digest"),
        pytest.param(
            {"page": {"enabled": True, "ingress": {"enabled": True}}}, "page.ingress.host: the host name", id="no-host"
        ),
        pytest.param({"page": {"ingress": {"host": "https://page"}}}, "pattern", id="a-link-as-host"),
        pytest.param({"page": {"audience": ""}}, "minLength", id="no-audience"),
        pytest.param({"config": {"leaderElection": {"enabled": False}}}, "replicas: more than 1", id="two-at-once"),
        pytest.param(
            {"kubeletPlugin": {"enabled": True, "cpu": {"enabled": False}}}, "no driver is enabled", id="no-driver"
        ),
        pytest.param(
            {"kubeletPlugin": {"enabled": True, "gpu": {"enabled": True, "inventory": "simulated"}}},
            "gpu.simulated: says which GPUs",
            id="no-inventory",
        ),
        pytest.param(
            {"kubeletPlugin": {"enabled": True, "namespace": {"name": "dra-reserve"}}},
            "must be another than the release's",
            id="one-namespace-for-both",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_by_name(values, said):
    assert said in refusal(values)


def test_every_section_refuses_what_it_does_not_know():
    made = chart_schema.schema()
    sections = [made, made["properties"]["policies"], *made["$defs"].values()]
    assert all(each["additionalProperties"] is False for each in sections if "properties" in each)


# What every choice makes


@cache
def renderings():
    return [(values, charts.rendered(values, namespace="elsewhere")) for values in combinations.rows()]


def test_any_two_choices_meet():
    options = combinations.choices()
    assert all(len(choices) >= 2 for choices in options.values())
    assert len(combinations.rows()) <= 40


def test_every_choice_renders_and_no_name_is_there_twice():
    for _, objects in renderings():
        assert by_identity(objects)


def templates():
    for values, objects in renderings():
        for obj in objects:
            if obj["kind"] in RUNS:
                yield values, obj["spec"]["template"]["spec"]


def test_every_pod_is_confined():
    privileged = 0
    for values, pod in templates():
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        if context.get("privileged"):
            privileged += 1
            assert values["kubeletPlugin"]["gpu"]["inventory"] == "nvml"
            assert container["name"] == "plugin"
            continue
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        if container["name"] == "controller":
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert not any("hostPath" in volume for volume in pod["volumes"])
    assert privileged


def test_every_volume_is_mounted_and_every_mount_is_there():
    for _, pod in templates():
        (container,) = pod["containers"]
        assert {volume["name"] for volume in pod["volumes"]} == {mount["name"] for mount in container["volumeMounts"]}


def test_every_configuration_is_one():
    for values, objects in renderings():
        (found,) = (
            obj for obj in objects if obj["metadata"]["name"] == "dra-reserve-controller" and obj["kind"] == "ConfigMap"
        )
        configuration = ControllerConfiguration.model_validate(yaml.safe_load(found["data"]["config.yaml"]))
        assert configuration.mode == values["mode"]
        assert configuration.leader_election.namespace == "elsewhere"
        assert configuration.release_finished is values["config"]["releaseFinished"]
        assert configuration.koordinator is values["koordinator"]["enabled"]
        (policy,) = (
            each
            for each in objects
            if each["kind"] == "ValidatingAdmissionPolicy" and each["metadata"]["name"] == "controller-pods.reserve.dra"
        )
        expressions = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
        assert expressions["image"] == repr(configuration.placeholder_image)


def test_every_argument_is_an_option():
    for _, pod in templates():
        (container,) = pod["containers"]
        name, *arguments = container["args"]
        known = {option for parameter in main.commands[name].params for option in parameter.opts}
        assert {argument.partition("=")[0] for argument in arguments} <= known


def test_nothing_is_left_in_the_namespaces_of_the_kustomizations():
    for values, objects in renderings():
        nodes = values["kubeletPlugin"]["namespace"].get("name", "dra-reserve-nodes")
        for obj in objects:
            assert obj["metadata"].get("namespace") in {None, "elsewhere", nodes, "koordinator-system"}
            assert {subject["namespace"] for subject in obj.get("subjects", [])} <= {"elsewhere", nodes}
            text = yaml.safe_dump(obj)
            assert "serviceaccount:dra-reserve:" not in text
            assert nodes == "dra-reserve-nodes" or "dra-reserve-nodes" not in text


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        pytest.param("PodMonitor", lambda v: v["podMonitor"]["enabled"], id="pod-monitors"),
        pytest.param("PrometheusRule", lambda v: v["alerts"]["enabled"], id="alerts"),
        pytest.param("NetworkPolicy", lambda v: v["networkPolicy"]["enabled"], id="network-policies"),
        pytest.param(
            "MutatingAdmissionPolicy",
            lambda v: v["policies"]["gate"] or v["koordinator"]["enabled"] or v["colocation"]["profiles"]["enabled"],
            id="gate",
        ),
        pytest.param("DaemonSet", lambda v: v["kubeletPlugin"]["enabled"], id="plugin"),
        pytest.param("Ingress", lambda v: v["page"]["enabled"] and v["page"]["ingress"]["enabled"], id="ingress"),
        pytest.param("PodDisruptionBudget", lambda v: v["controller"]["podDisruptionBudget"]["enabled"], id="budget"),
    ],
)
def test_a_kind_is_there_when_it_is_asked_for_and_only_then(kind, when):
    assert {(any(obj["kind"] == kind for obj in objects), when(values)) for values, objects in renderings()} == {
        (True, True),
        (False, False),
    }


@pytest.mark.parametrize(
    ("name", "section"),
    [
        pytest.param("reservations.scheduling.koordinator.sh", "reservations", id="reservations"),
        pytest.param("podmigrationjobs.scheduling.koordinator.sh", "descheduler", id="migrations"),
        pytest.param("nodemetrics.slo.koordinator.sh", "colocation", id="colocation"),
    ],
)
def test_a_definition_is_there_when_its_kind_is_asked_for(name, section):
    for values, objects in renderings():
        found = [obj for obj in objects if obj["metadata"]["name"] == name]
        assert bool(found) is values[section]["enabled"]
        assert all(obj["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for obj in found)


def test_the_configuration_of_the_extender_is_one_and_binds_placeholders_as_the_values_say():
    bound = set()
    for values, objects in renderings():
        objects_by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
        extender = objects_by_name.get(("ConfigMap", "dra-reserve-extender"))
        if extender is not None:
            configuration = ExtenderConfiguration.model_validate(yaml.safe_load(extender["data"]["config.yaml"]))
            assert configuration.bind_placeholders is values["reservations"]["extender"].get("bindPlaceholders")
            bound.add(configuration.bind_placeholders)
    assert bound == {None, True}


def test_the_configuration_of_the_descheduler_is_one():
    for values, objects in renderings():
        found = [
            obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("ConfigMap", "dra-reserve-descheduler")
        ]
        assert bool(found) is values["descheduler"]["enabled"]
        for each in found:
            configuration = DeschedulerProcessConfiguration.model_validate(yaml.safe_load(each["data"]["config.yaml"]))
            assert configuration.leader_election.namespace == "elsewhere"
            assert configuration.migration.eviction_policy == values["descheduler"]["migration"]["evictionPolicy"]


def test_the_example_of_a_profile_is_a_part_of_the_values():
    fields = yaml.safe_load(Path("examples/descheduling/configuration.yaml").read_text())
    values = ChartValues.model_validate({"descheduler": {"enabled": True, **fields}})
    assert list(values.descheduler.profiles) == fields["profiles"]


def assert_prometheus_files_are_mounted(prometheus, values, pod):
    """Assert that the CA and the token that the configuration names, and no others, are where it looks for them."""
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {}
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        if mount["name"].startswith("prometheus-"):
            source = volume.get("configMap") or volume.get("secret")
            (item,) = source["items"]
            name = source.get("name") or source["secretName"]
            mounted[f"{mount['mountPath']}/{item['path']}"] = (name, item["key"])
    wanted = {}
    if prometheus is not None and prometheus.ca is not None:
        wanted[prometheus.ca] = (values["ca"]["configMap"], values["ca"].get("key", "ca.crt"))
    if prometheus is not None and prometheus.token_file is not None:
        wanted[prometheus.token_file] = (values["token"]["secret"], values["token"].get("key", "token"))
    assert mounted == wanted


def test_the_configuration_of_the_page_is_one_and_allows_the_host_of_its_ingress():
    for values, objects in renderings():
        found = {obj["kind"]: obj for obj in objects if obj["metadata"]["name"] == "dra-reserve-page"}
        page = values["page"]
        assert bool(found) is page["enabled"]
        if not found:
            continue
        configuration = PageConfiguration.model_validate(yaml.safe_load(found["ConfigMap"]["data"]["config.yaml"]))
        assert configuration.lease_namespace == "elsewhere"
        host = combinations.FILLED["page.ingress.host"]
        assert (host in configuration.allowed_hosts) is page["ingress"]["enabled"]
        assert set(page.get("allowedHosts", ())) <= set(configuration.allowed_hosts)
        (port,) = found["Service"]["spec"]["ports"]
        assert port["port"] == (443 if page.get("tlsSecret") else 80)
        assert (configuration.tls is not None) is bool(page.get("tlsSecret"))
        pod = found["Deployment"]["spec"]["template"]["spec"]
        assert_prometheus_files_are_mounted(configuration.prometheus, page.get("prometheus"), pod)
        if page["ingress"]["enabled"]:
            spec = found["Ingress"]["spec"]
            assert ("tls" in spec) is page["ingress"]["tls"]["enabled"]
            assert spec["rules"][0]["host"] == host


def test_the_page_may_list_the_kinds_of_workloads_that_are_added():
    for values, objects in renderings():
        found = [obj for obj in objects if obj["metadata"]["name"] == "dra-reserve-page-more-workloads"]
        wanted = values["page"]["enabled"] and bool(values.get("workloads"))
        assert {obj["kind"] for obj in found} == ({"ClusterRole", "ClusterRoleBinding"} if wanted else set())


def test_the_account_of_the_page_writes_nothing_but_reviews():
    for _, objects in renderings():
        roles = {
            obj["roleRef"]["name"]
            for obj in objects
            if obj["kind"].endswith("Binding")
            if [each["name"] for each in obj.get("subjects", ())] == ["dra-reserve-page"]
        }
        rules = [
            rule
            for obj in objects
            if obj["kind"] in {"Role", "ClusterRole"} and obj["metadata"]["name"] in roles
            for rule in obj["rules"]
        ]
        written = {
            resource
            for rule in rules
            if set(rule["verbs"]) - {"get", "list", "watch"}
            for resource in rule["resources"]
        }
        assert written <= {"tokenreviews", "subjectaccessreviews"}


def test_what_is_answered_to_owners_of_any_namespace_follows_the_values():
    for values, objects in renderings():
        found = [obj for obj in objects if obj["metadata"]["name"] == "owners.reserve.dra"]
        answer = values["reservations"]["ownersOfAnyNamespace"]
        told = [obj["spec"]["validationActions"] for obj in found if obj["kind"].endswith("Binding")]
        wanted = values["reservations"]["enabled"] and answer != "Allow"
        assert (len(found), told) == ((2, [[answer]]) if wanted else (0, []))


def test_alerts_and_dashboard_are_those_of_the_files():
    for values, objects in renderings():
        found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
        rule = found.get(("PrometheusRule", "dra-reserve"))
        if rule is not None:
            assert rule["spec"] == yaml.safe_load((ROOT / "deploy/monitoring/alerts.yaml").read_text())
        shown = found.get(("ConfigMap", "dra-reserve-dashboard"))
        assert (shown is not None) is values["dashboard"]["enabled"]
        if shown is not None:
            assert shown["data"]["dra-reserve.json"] == (ROOT / "deploy/monitoring/dashboard.json").read_text()


def test_rights_follow_the_configuration():
    for values, objects in renderings():
        roles = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterRole"}
        assert ("dra-reserve-generation" in roles) is (values["mode"] == ControllerMode.REPLACE)
        assert ("dra-reserve-eviction" in roles) is values["config"]["deviceTaintEviction"]
        assert ("dra-reserve-koordinator" in roles) is values["koordinator"]["enabled"]
        annotates = values["config"]["annotateNodes"] or values["nodeRights"]
        assert ("dra-reserve-node-annotations" in roles) is annotates
        assert ("dra-reserve-more-workloads" in roles) is bool(values.get("workloads"))
        assert ({"dra-reserve-viewer", "dra-reserve-editor"} <= roles) is values["userRoles"]


def test_users_roles_write_no_status():
    for obj in charts.rendered({}):
        if obj["metadata"]["name"] in {"dra-reserve-viewer", "dra-reserve-editor"}:
            assert not [kind for rule in obj["rules"] for kind in rule["resources"] if "/" in kind]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param({}, "dra-reserve:0.1.0", id="of-the-chart"),
        pytest.param({"repository": "r.example:5000/d", "tag": "x"}, "r.example:5000/d:x", id="tag"),
        pytest.param({"tag": "x", "digest": f"sha256:{'a' * 64}"}, f"dra-reserve@sha256:{'a' * 64}", id="digest-wins"),
    ],
)
def test_the_image(image, expected):
    (deployment,) = (obj for obj in charts.rendered({"image": image}) if obj["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == expected


def notes(values):
    shown = charts.helm(
        "install", "r", str(charts.CHART), "--namespace=elsewhere", "--dry-run=client", "--values=-",
        stdin=yaml.safe_dump(values),
    )  # fmt: skip
    return shown.partition("\nNOTES:\n")[2]


@pytest.mark.parametrize("mode", list(ControllerMode), ids=str)
def test_the_notes_name_commands_that_exist_and_the_namespace_of_the_release(mode):
    said = notes({"mode": mode.value, "kubeletPlugin": {"enabled": True}, "policies": {"gate": True}})
    assert unknown_commands(said) == []
    assert "kubectl rollout status deployment dra-reserve-controller -n elsewhere\n" in said
    assert f"kubectl dra preflight --mode {mode}" in said
    assert ("StockControllerActive" in said) is (mode is ControllerMode.REPLACE)
    assert "kubectl dra downgrade --apply --lease-namespace elsewhere" in said


@pytest.mark.parametrize(
    ("bind_only", "sample"),
    [(False, "scheduler-configuration.yaml"), (True, "scheduler-configuration-bind-only.yaml")],
)
def test_the_notes_say_what_has_to_be_done_to_the_scheduler(bind_only, sample):
    said = notes({"reservations": {"enabled": True, "extender": {"bindSeconds": 2.5, "bindOnly": bind_only}}})
    assert unknown_commands(said) == []
    assert "kubectl get service dra-reserve-extender -n elsewhere\n" in said
    expected = yaml.safe_load((ROOT / "deploy/reservations" / sample).read_text())
    (extender,) = expected["extenders"]
    extender["tlsConfig"]["serverName"] = "dra-reserve-extender.elsewhere.svc"
    extender["httpTimeout"] = "3.5s"
    (told,) = re.findall(r"^  apiVersion: kubescheduler.*?(?=\n\n)", said, re.MULTILINE | re.DOTALL)
    assert yaml.safe_load(textwrap.dedent(told)) == expected
    assert ("kubectl dra reserve trial" in said) is not bind_only


def test_without_the_extender_nothing_is_said_of_the_scheduler():
    said = notes({"reservations": {"enabled": True, "placeholders": "yielding"}})
    assert unknown_commands(said) == []
    assert "kubectl dra reserve trial" in said
    assert "scheduler-configuration" not in said


def test_the_notes_say_how_to_sign_in_to_the_page():
    said = notes({"page": {"enabled": True, "audience": "ours"}})
    assert unknown_commands(said) == []
    assert "  kubectl port-forward -n elsewhere service/dra-reserve-page 8080:80\n" in said
    assert "  kubectl create token page-user -n elsewhere --audience=ours\n" in said
    assert "http://localhost:8080/" in said
    assert "can read the tokens" not in said


def test_the_notes_warn_of_tokens_that_travel_unencrypted():
    ingress = {"enabled": True, "host": "page.example.com"}
    assert "at https://page.example.com/, or at" in notes({"page": {"enabled": True, "ingress": ingress}})
    said = notes({"page": {"enabled": True, "ingress": {**ingress, "tls": {"enabled": False}}}})
    assert "http://page.example.com/" in said
    assert "can read the tokens" in said


def test_the_definition_of_reservations_stays_when_the_release_goes():
    (found,) = (
        obj for obj in charts.rendered({"reservations": {"enabled": True}}) if obj["kind"] == "CustomResourceDefinition"
    )
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "docs/how-to/install.md", "docs/how-to/upgrade.md", "docs/how-to/metrics.md"),
        "docs/how-to/page.md",
    ],
)
def test_helm_takes_the_values_that_a_page_sets(page):
    text = (ROOT / page).read_text().replace("\\\n", " ")
    lines = re.findall(r"^helm (?:install|upgrade) .*$", text, re.MULTILINE)
    commands = [shlex.split(line, comments=True) for line in lines]
    assert commands
    released = f"oci://{read_project().charts}/dra-reserve"  # has the same templates and the same values
    for _, verb, release, chart, *options in commands:
        assert release == "dra-reserve"
        assert chart in {"deploy/helm/dra-reserve", released}
        words = [word for word in options if word not in {"--reset-then-reuse-values", "--create-namespace"}]
        assert charts.helm("install", "r", str(charts.CHART), "--dry-run=client", *words), verb


def test_the_notes_of_a_plain_installation_speak_of_nothing_else():
    said = notes({})
    assert "kubelet-plugin" not in said
    assert "reserve.dra/gate" not in said
