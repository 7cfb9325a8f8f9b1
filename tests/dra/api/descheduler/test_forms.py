"""The three forms of a configuration become one."""

import pytest

from dra.api.configuration import Endpoint
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.descheduler.forms import read_configuration
from dra.api.descheduler.migration_controller_args import MINUTE
from dra.api.descheduler.problems import MalformedDeschedulerConfigurationError, format_path
from dra.api.durations import SECOND

OURS = DeschedulerProcessConfiguration()
POLICY = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
KOORDINATOR = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}


def with_args(**fields):
    return [{"name": "a", "pluginConfig": [{"name": "MigrationController", "args": fields}]}]


@pytest.mark.parametrize("content", [{}, {"migration": {}}, {"probes": {"port": 8085}}])
def test_a_file_without_a_version_is_our_own(content):
    assert read_configuration(content) == OURS


def test_our_own_form_keeps_the_meaning_of_null():
    assert read_configuration({"migration": {"maxMigratingPerNode": None}}).migration.max_migrating_per_node is None


def test_in_the_other_forms_a_null_is_an_absent_field():
    content = {**KOORDINATOR, "nodeSelector": None, "profiles": with_args(maxMigratingPerNode=None)}
    assert read_configuration(content).migration.max_migrating_per_node == 2


def test_koordinators_process_fields_are_honoured():
    found = read_configuration(
        {
            **KOORDINATOR,
            "clientConnection": {"kubeconfig": "/k", "qps": 7, "burst": 9, "contentType": "application/json"},
            "leaderElection": {
                "leaderElect": False,
                "leaseDuration": "30s",
                "renewDeadline": "20s",
                "retryPeriod": "500ms",
                "resourceName": "koord-descheduler",
                "resourceNamespace": "koordinator-system",
            },
            "deschedulingInterval": "10s",
            "dryRun": True,
            "healthzBindAddress": ":10251",
            "metricsBindAddress": "0",
            "enableProfiling": True,
        }
    )
    assert (found.kubeconfig, found.qps, found.burst) == ("/k", 7, 9)
    assert found.leader_election.model_dump() == {
        "enabled": False,
        "namespace": "koordinator-system",
        "name": "koord-descheduler",
        "lease_seconds": 30,
        "renew_seconds": 20,
        "retry_seconds": 0.5,
    }
    assert (found.descheduling_interval, found.dry_run) == (10 * SECOND, True)
    assert (found.probes, found.metrics) == (Endpoint(address="0.0.0.0", port=10251), None)  # noqa: S104 all of a pod's


def test_what_koordinators_form_leaves_out_is_ours_but_for_the_interval():
    found = read_configuration(KOORDINATOR)
    assert found == OURS.model_copy(update={"descheduling_interval": 0})


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        pytest.param("", Endpoint(port=8085), id="default"),
        pytest.param("10.0.0.1:80", Endpoint(address="10.0.0.1", port=80), id="address-and-port"),
        pytest.param("[::1]:80", Endpoint(address="::1", port=80), id="ipv6"),
        pytest.param("10.0.0.1", Endpoint(address="10.0.0.1", port=8085), id="address"),
        pytest.param("::1", Endpoint(address="::1", port=8085), id="ipv6-address", marks=()),
    ],
)
def test_addresses_of_endpoints(given, endpoint):
    assert read_configuration({**KOORDINATOR, "healthzBindAddress": given}).probes == endpoint


def test_the_arguments_of_the_migration_controller_have_one_source():
    profiles = [*with_args(evictBurst=3, evictQPS="10"), {**with_args(evictBurst=3, evictQPS=10)[0], "name": "b"}]
    args = read_configuration({**KOORDINATOR, "profiles": profiles}).migration
    assert (args.evict_burst, args.evict_qps) == (3, 10)


def test_arbitration_args_without_enabled_leave_arbitration_on():
    content = {**KOORDINATOR, "profiles": with_args(arbitrationArgs={"interval": "1s"})}
    args = read_configuration(content).migration.arbitration_args
    assert (args.enabled, args.interval) == (True, SECOND)


def test_a_policy_has_the_interval_of_our_own_form_and_gives_its_grace_period_to_evictions():
    found = read_configuration({**POLICY, "gracePeriodSeconds": 0, "nodeSelector": "pool=a"})
    assert found.descheduling_interval == 5 * MINUTE
    assert found.migration.default_delete_options.document() == {"gracePeriodSeconds": 0}
    assert found.node_selector.selects({"pool": "a"})


@pytest.mark.parametrize(
    ("configs", "evicts"),
    [
        pytest.param({"DefaultEvictor": {"evictLocalStoragePods": True}}, True, id="old-form"),
        pytest.param(
            {"DefaultEvictor": {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}}, True, id="new-form"
        ),
        pytest.param({"DefaultEvictor": {"nodeFit": True}}, False, id="protected-by-default"),
        pytest.param(
            {"DefaultEvictor": {"evictLocalStoragePods": True}, "MigrationController": {"evictBurst": 2}},
            False,
            id="the-arguments-of-a-migration-controller-take-precedence",
        ),
    ],
)
def test_what_default_evictor_of_a_policy_lets_go_the_migrations_let_go(configs, evicts):
    given = [{"name": name, "args": args} for name, args in configs.items()]
    found = read_configuration({**POLICY, "profiles": [{"name": "a", "pluginConfig": given}]})
    assert found.migration.evict_local_storage_pods is evicts
    assert found.migration.evict_system_critical_pods is False


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        pytest.param({}, ["DefaultEvictor"], id="always"),
        pytest.param({"enabled": ["DefaultEvictor"]}, ["DefaultEvictor"], id="once"),
        pytest.param({"disabled": ["DefaultEvictor"]}, [], id="unless-disabled"),
        pytest.param({"disabled": ["*"]}, [], id="unless-all-are-disabled"),
    ],
)
def test_a_policy_filters_by_default_evictor(filters, names):
    content = {**POLICY, "profiles": [{"name": "a", "plugins": {"filter": filters}}]}
    (profile,) = read_configuration(content).profiles
    assert [plugin.name for plugin in profile.plugins.filter.enabled] == names


def test_the_other_forms_know_no_fields_in_the_words_of_python():
    with pytest.raises(MalformedDeschedulerConfigurationError, match="dry_run: unknown field"):
        read_configuration({**KOORDINATOR, "dry_run": True})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param((), "", id="root"),
        pytest.param(("profiles", 0, "name"), "profiles[0].name", id="index"),
        pytest.param(("thresholds", "nvidia.com/gpu"), "thresholds.nvidia.com/gpu", id="resource"),
    ],
)
def test_paths_as_text(path, text):
    assert format_path(path) == text
