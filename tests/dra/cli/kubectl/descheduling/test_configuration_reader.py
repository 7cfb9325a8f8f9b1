"""Whose limits and rules a dry run assumes, and what it says about them."""

from copy import deepcopy

import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.cli.kubectl.descheduling import configuration_reader
from dra.cli.kubectl.descheduling.configuration_reader import read_configuration, read_configuration_file
from dra.cli.kubectl.descheduling.dry_round import plan_round
from dra.cli.kubectl.failures import FailedError
from dra.kube.errors import Forbidden, Status

DEFAULTS = MigrationControllerArgs()
NAMESPACE = "/api/v1/namespaces"
CONTENT = "migration: {maxMigratingPerNode: 7}\n"
CONTAINER = {
    "name": "descheduler",
    "image": "dra-reserve",
    "args": ["descheduler", "--config=/etc/dra-reserve/config.yaml"],
    "volumeMounts": [{"name": "config", "mountPath": "/etc/dra-reserve"}],
}
VOLUME = {"name": "config", "configMap": {"name": "descheduler-config-5f"}}
SIDECAR = {"name": "proxy", "image": "proxy", "args": ["--config=/etc/proxy"]}
ITEMS = {"name": "descheduler-config-5f", "items": [{"key": "limits", "path": "config.yaml"}]}
MOUNTED_FILE = [
    {"name": "other", "mountPath": "/etc"},
    {"name": "config", "mountPath": "/etc/dra-reserve/config.yaml", "subPath": "limits"},
]
FILE = "limits and rules are those of configmap dra-reserve/descheduler-config-5f"
UNKNOWN = "limits and rules are the defaults of the descheduler's configuration: "
ADVICE = "; name the descheduler's configuration file with --config"


async def install(site, *, containers=None, volume=VOLUME, data=None):
    """Install a descheduler, as deploy/descheduler does."""
    await site.request("POST", NAMESPACE, {"metadata": {"name": "dra-reserve"}})
    labels = {"app": "descheduler"}
    pod = {"containers": containers or [CONTAINER], "volumes": [volume, {"name": "other", "emptyDir": {}}]}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    deployment = {"metadata": {"name": "dra-reserve-descheduler"}, "spec": spec}
    await site.request("POST", "/apis/apps/v1/namespaces/dra-reserve/deployments", deployment)
    if data is not None:
        config_map = {"metadata": {"name": "descheduler-config-5f"}, "data": data}
        await site.request("POST", f"{NAMESPACE}/dra-reserve/configmaps", config_map)


def changed(**fields):
    return [deepcopy(CONTAINER) | fields]


@pytest.mark.parametrize(
    ("installed", "key"),
    [
        pytest.param({}, "config.yaml", id="as-installed"),
        pytest.param({"containers": [SIDECAR, CONTAINER]}, "config.yaml", id="beside-another-container"),
        pytest.param(
            {"containers": changed(args=["descheduler", "--config", "/etc/dra-reserve/config.yaml"])},
            "config.yaml",
            id="flag-and-value-apart",
        ),
        pytest.param(
            {"containers": changed(command=["dra-reserve", *CONTAINER["args"]], args=[])}, "config.yaml", id="command"
        ),
        pytest.param({"volume": {"name": "config", "configMap": ITEMS}}, "limits", id="key-with-a-path"),
        pytest.param({"containers": changed(volumeMounts=MOUNTED_FILE)}, "limits", id="single-file"),
    ],
)
async def test_the_config_map_of_the_deployment_is_read(site, installed, key):
    await install(site, **installed, data={key: CONTENT})
    found = await read_configuration(site.connection(), "dra-reserve")
    assert (found.args.max_migrating_per_node, found.text) == (7, FILE)


async def test_without_a_flag_the_descheduler_has_the_defaults(site):
    await install(site, containers=changed(args=["descheduler"]))
    found = await read_configuration(site.connection(), "dra-reserve")
    name = "deployment dra-reserve/dra-reserve-descheduler"
    assert (found.args, found.text) == (DEFAULTS, f"{UNKNOWN}{name} has no --config")


@pytest.mark.parametrize(
    ("installed", "why"),
    [
        pytest.param(
            {"containers": [SIDECAR]},
            "deployment dra-reserve/dra-reserve-descheduler does not run dra-reserve descheduler",
            id="another-program",
        ),
        pytest.param(
            {"volume": {"name": "config", "emptyDir": {}}},
            "deployment dra-reserve/dra-reserve-descheduler: /etc/dra-reserve/config.yaml comes from no ConfigMap",
            id="another-volume",
        ),
        pytest.param(
            {"containers": changed(volumeMounts=[])},
            "deployment dra-reserve/dra-reserve-descheduler: /etc/dra-reserve/config.yaml comes from no ConfigMap",
            id="file-of-the-image",
        ),
        pytest.param({}, "configmap dra-reserve/descheduler-config-5f does not exist", id="no-config-map"),
        pytest.param({"data": {"x": ""}}, "configmap dra-reserve/descheduler-config-5f has no key", id="no-key"),
        pytest.param(
            {"data": {"config.yaml": "migration: {maxMigrating: 1}"}},
            "configmap dra-reserve/descheduler-config-5f: migration.maxMigrating: unknown field",
            id="malformed",
        ),
        pytest.param(
            {"data": {"config.yaml": "migration: {"}},
            "configmap dra-reserve/descheduler-config-5f: not valid YAML",
            id="no-yaml",
        ),
    ],
)
async def test_what_cannot_be_read_is_named_and_the_defaults_are_assumed(site, installed, why):
    await install(site, **installed)
    found = await read_configuration(site.connection(), "dra-reserve")
    assert found.args == DEFAULTS
    assert found.text.startswith(UNKNOWN + why)
    assert found.text.endswith(ADVICE)
    assert found.is_somebodys


async def test_without_an_installation_the_defaults_are_assumed(site):
    found = await read_configuration(site.connection(), "dra-reserve")
    name = "deployment dra-reserve/dra-reserve-descheduler"
    assert (found.args, found.text) == (DEFAULTS, f"{UNKNOWN}{name} does not exist{ADVICE}")
    assert not found.is_somebodys


@pytest.mark.parametrize("forbidden", ["deployments", "configmaps"])
async def test_a_missing_permission_is_named_and_the_defaults_are_assumed(site, monkeypatch, forbidden):
    await install(site, data={"config.yaml": CONTENT})
    connection = site.connection()
    read = connection.client.get

    async def get(resource, key, model):
        if resource.plural == forbidden:
            raise Forbidden("/".join(key), Status(code=403, message=f"{forbidden} is forbidden"))
        return await read(resource, key, model)

    monkeypatch.setattr(connection.client, "get", get)
    found = await read_configuration(connection, "dra-reserve")
    assert found.args == DEFAULTS
    assert found.text.startswith(UNKNOWN)
    assert f"{forbidden} is forbidden" in found.text


async def test_the_descheduler_of_a_local_plane_has_the_defaults(site, monkeypatch):
    async def has_component(_, name):
        return name == "descheduler"

    monkeypatch.setattr(configuration_reader, "has_plane_component", has_component)
    found = await read_configuration(site.connection(), "dra-reserve")
    assert (found.args, found.text) == (DEFAULTS, f"{UNKNOWN}the descheduler of the local plane has no others")


def test_a_file_is_read(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONTENT)
    found = read_configuration_file(path)
    assert (found.args.max_migrating_per_node, found.text) == (7, f"limits and rules are those of {path}")


def test_a_file_that_the_descheduler_would_reject_is_an_error(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("migration: {evictQPS: 0}")
    with pytest.raises(FailedError, match=r"config\.yaml: migration\.evictQPS: Input should be greater than 0"):
        read_configuration_file(path)


KOORDINATOR = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
maxNoOfPodsToEvictPerNode: 3
profiles:
- name: nightly
  plugins: {deschedule: {enabled: [{name: RemoveFailedPods}]}}
"""


async def test_the_rounds_of_the_installed_descheduler_are_known_in_any_form_of_its_file(site):
    await install(site, data={"config.yaml": KOORDINATOR})
    plan = plan_round(await read_configuration(site.connection(), "dra-reserve"))
    assert [profile.name for profile in plan.descheduling.profiles] == ["nightly"]
    assert plan.descheduling.limits.per_node == 3
    assert plan.text == FILE


async def test_an_installed_descheduler_without_profiles_has_no_rounds(site):
    await install(site, data={"config.yaml": CONTENT})
    assert plan_round(await read_configuration(site.connection(), "dra-reserve")) is None
