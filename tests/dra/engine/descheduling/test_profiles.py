"""Configurations as profiles: which plugins run in which order, which plugin evicts, on which nodes."""

# ruff: noqa: ARG002 - a plugin need not use what it is given

import msgspec
import pytest

from dra.api.descheduler.forms import read_configuration
from dra.api.descheduler.plugin_args import PluginArgs
from dra.api.migration.model import EvictionPolicy
from dra.engine.descheduling.plugin_catalog import BUILT_IN
from dra.engine.descheduling.profiles import compile_descheduling
from dra.engine.descheduling.round import Limits
from dra.model.scheduling import SchedulerNode

POLICY = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
KOORDINATOR = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
DIRECTLY = {"defaultJobMode": "EvictDirectly"}
FAILED = {"deschedule": {"enabled": [{"name": "RemoveFailedPods"}]}}


class UsersEvictor:
    """A plugin of a user that evicts, too."""

    name = "UsersEvictor"

    class Args(PluginArgs):
        max_days: int = 30

    def deschedule(self, snapshot, args):
        return ()

    def evict(self, decisions):
        return ()


def references(*names):
    return [{"name": name} for name in names]


def compiled(plugins, *configs, plugin=None, migration=None, **more):
    """Return the only profile of a configuration of our own form, and the whole."""
    profile = {"name": "a", "plugins": plugins, "pluginConfig": list(configs)}
    content = {"profiles": [profile], "migration": migration or {}, **more}
    users = {} if plugin is None else {plugin.name: plugin}
    descheduling = compile_descheduling(read_configuration(content), plugins=users)
    return descheduling.profiles[0], descheduling


def names(entries):
    return [plugin.name for plugin, _ in entries]


def test_without_profiles_there_are_no_rounds():
    assert compile_descheduling(read_configuration({})) is None


def test_each_built_in_plugin_has_a_name_arguments_and_a_part_in_rounds():
    found = [plugin.name for plugin in BUILT_IN]
    assert len(set(found)) == len(found)
    for plugin in BUILT_IN:
        assert issubclass(plugin.Args, PluginArgs)
        assert any(hasattr(plugin, point) for point in ("deschedule", "balance", "filter"))


def test_plugins_run_in_the_order_in_which_they_are_enabled():
    profile, _ = compiled(
        {
            "deschedule": {
                "enabled": references("RemovePodsViolatingNodeTaints", "RemoveFailedPods"),
            },
            "balance": {"enabled": references("RemoveDuplicates")},
        },
    )
    assert names(profile.deschedule) == ["RemovePodsViolatingNodeTaints", "RemoveFailedPods"]
    assert names(profile.balance) == ["RemoveDuplicates"]


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        pytest.param({}, ["MigrationController"], id="default"),
        pytest.param(
            {"enabled": references("DefaultEvictor")}, ["MigrationController", "DefaultEvictor"], id="after-the-default"
        ),
        pytest.param({"disabled": references("*")}, [], id="all-disabled"),
        pytest.param({"disabled": references("MigrationController")}, [], id="one-disabled"),
        pytest.param(
            {"disabled": references("*"), "enabled": references("DefaultEvictor")}, ["DefaultEvictor"], id="replaced"
        ),
        pytest.param(
            {"enabled": references("DefaultEvictor", "MigrationController")},
            ["MigrationController", "DefaultEvictor"],
            id="a-default-keeps-its-place",
        ),
    ],
)
def test_the_filters_of_a_profile(filters, wanted):
    profile, _ = compiled(FAILED | {"filter": filters})
    assert names(profile.filters) == wanted


def test_a_filter_of_both_points_is_asked_once():
    enabled = {"enabled": ["DefaultEvictor"]}
    plugins = {"filter": enabled, "preevictionfilter": enabled, "deschedule": {"enabled": ["RemoveFailedPods"]}}
    content = {**POLICY, "profiles": [{"name": "a", "plugins": plugins}]}
    (profile,) = compile_descheduling(read_configuration(content)).profiles
    assert names(profile.filters) == ["MigrationController", "DefaultEvictor"]


@pytest.mark.parametrize(
    ("evict", "evictor", "warns"),
    [
        pytest.param({}, "MigrationController", False, id="default"),
        pytest.param({"enabled": references("DefaultEvictor")}, "MigrationController", True, id="only-the-first-acts"),
        pytest.param(
            {"disabled": references("*"), "enabled": references("DefaultEvictor")}, "DefaultEvictor", False, id="other"
        ),
        pytest.param(
            {"disabled": references("*"), "enabled": references("UsersEvictor")}, "UsersEvictor", False, id="of-a-user"
        ),
    ],
)
def test_the_plugin_that_evicts(evict, evictor, warns):
    profile, descheduling = compiled(FAILED | {"evict": evict}, plugin=UsersEvictor())
    assert profile.evictor == evictor
    assert any("only the first plugin evicts, MigrationController" in text for text in descheduling.warnings) is warns


@pytest.mark.parametrize(
    ("evictor", "migration", "node_fit", "requires"),
    [
        pytest.param("MigrationController", {}, False, True, id="reserves"),
        pytest.param("MigrationController", {"defaultJobMode": "EvictDirectly"}, False, False, id="evicts-directly"),
        pytest.param(
            "MigrationController", {"defaultJobMode": "EvictDirectly", "nodeFit": True}, False, True, id="fit"
        ),
        pytest.param("DefaultEvictor", {}, False, False, id="default-evictor"),
        pytest.param("DefaultEvictor", {}, True, True, id="default-evictor-with-node-fit"),
    ],
)
def test_whether_a_pod_needs_a_place(evictor, migration, node_fit, requires):
    profile, _ = compiled(
        FAILED
        | {
            "evict": {"disabled": references("*"), "enabled": references(evictor)},
            "filter": {"enabled": references("DefaultEvictor")},
        },
        {"name": "DefaultEvictor", "args": {"nodeFit": node_fit}},
        migration=migration,
    )
    assert profile.requires_place is requires


def test_the_eviction_policy_is_that_of_the_plugin_that_evicts():
    profile, _ = compiled(FAILED, migration={"evictionPolicy": "Delete"})
    assert profile.eviction_policy is EvictionPolicy.DELETE
    direct = {"evict": {"disabled": references("*"), "enabled": references("DefaultEvictor")}}
    profile, _ = compiled(FAILED | direct, migration={"evictionPolicy": "Delete"})
    assert profile.eviction_policy is EvictionPolicy.EVICTION


@pytest.mark.parametrize(
    ("evictor", "filters"),
    [
        pytest.param("DefaultEvictor", ["DefaultEvictor"], id="default-evictor"),
        pytest.param("MigrationController", [], id="jobs-are-arbitrated"),
    ],
)
def test_a_profile_without_filters_that_makes_no_jobs_protects_what_must_not_go_all_the_same(evictor, filters):
    """Nothing else keeps static pods and those of DaemonSets from the eviction API."""
    sets = {
        "evict": {"disabled": references("*"), "enabled": references(evictor)},
        "filter": {"disabled": references("*")},
    }
    profile, _ = compiled(FAILED | sets)
    assert [plugin.name for plugin, _ in profile.filters] == filters


def test_an_evictor_that_makes_no_jobs_is_told_where_approval_is_required():
    direct = {"evict": {"disabled": references("*"), "enabled": references("DefaultEvictor")}}
    _, descheduling = compiled(FAILED | direct, migration={"approval": "Required"})
    (text,) = descheduling.warnings
    assert text == ("profiles[0].plugins.evict: DefaultEvictor makes no jobs, so approval: Required has no effect")


@pytest.mark.parametrize(
    ("migration", "told"),
    [
        pytest.param({"approval": "Required"}, ["within 5m0s ends"], id="the-default-of-jobs"),
        pytest.param({"approval": "Required", "defaultJobTTL": "59m"}, ["within 59m0s ends"], id="less-than-an-hour"),
        pytest.param({"approval": "Required", "defaultJobTTL": "24h"}, [], id="a-day"),
        pytest.param({"approval": "Required", "defaultJobTTL": "0s"}, [], id="unlimited"),
        pytest.param({"defaultJobTTL": "1m"}, [], id="nobody-is-asked"),
    ],
)
def test_jobs_that_end_before_a_person_can_answer_are_told(migration, told):
    _, descheduling = compiled(FAILED, migration=migration)
    assert len(descheduling.warnings) == len(told)
    for text, warning in zip(told, descheduling.warnings, strict=True):
        assert warning.startswith("migration.approval: Required, ")
        assert text in warning


def test_a_plugin_of_a_user_has_its_own_arguments():
    profile, _ = compiled(
        {"deschedule": {"enabled": references("UsersEvictor")}},
        {"name": "UsersEvictor", "args": {"maxDays": 3}},
        plugin=UsersEvictor(),
    )
    ((_, args),) = profile.deschedule
    assert args.max_days == 3


def test_no_user_takes_the_name_of_a_built_in_plugin():
    taken = type("Taken", (UsersEvictor,), {"name": "RemoveFailedPods"})()
    profile, _ = compiled(FAILED, plugin=taken)
    assert profile.deschedule[0][0] is not taken


def test_limits_distinguish_none_from_nobody():
    _, descheduling = compiled(FAILED, maxNoOfPodsToEvictPerNode=0, maxNoOfPodsToEvictTotal=7)
    assert descheduling.limits == Limits(per_node=0, per_namespace=None, total=7)


def test_interval_and_dry_run():
    _, descheduling = compiled(FAILED, deschedulingInterval="90s", dryRun=True)
    assert (descheduling.interval, descheduling.dry_run) == (90.0, True)


def node(name, **labels):
    return msgspec.convert({"metadata": {"name": name, "uid": name, "labels": labels}}, SchedulerNode)


@pytest.mark.parametrize(
    ("everywhere", "of_profile", "of_evictor", "nodes", "receivers"),
    [
        pytest.param(None, None, None, None, None, id="all"),
        pytest.param("pool", None, None, {"a", "b"}, None, id="of-the-configuration"),
        pytest.param(None, "pool=x", None, {"a"}, None, id="of-the-profile"),
        pytest.param("gpu", "pool", None, {"b"}, None, id="both"),
        pytest.param(None, "nothing", None, set(), None, id="none-selected"),
        pytest.param(None, None, "gpu", None, {"b", "c"}, id="receivers"),
    ],
)
def test_the_nodes_of_a_round(everywhere, of_profile, of_evictor, nodes, receivers):
    profile = {"plugins": FAILED, "nodeSelector": of_profile}
    content = {"profiles": [profile], "nodeSelector": everywhere, "migration": {"nodeSelector": of_evictor}}
    descheduling = compile_descheduling(read_configuration(content))
    found = (node("a", pool="x"), node("b", pool="y", gpu="1"), node("c", gpu="2"))
    (resolved,) = descheduling.profiles_on(found)
    assert (resolved.nodes, resolved.receivers) == (nodes, receivers)


def test_the_only_profile_has_koordinators_name_if_it_has_none():
    descheduling = compile_descheduling(read_configuration({**KOORDINATOR, "profiles": [{"plugins": FAILED}]}))
    assert descheduling.profiles[0].name == "koord-descheduler"


@pytest.mark.parametrize(
    ("plugins", "configs", "text"),
    [
        pytest.param({}, [], "profiles[0].plugins: no plugin of deschedule or balance is enabled", id="idle"),
        pytest.param(
            FAILED,
            [{"name": "RemoveDuplicates"}],
            "profiles[0].pluginConfig[0]: RemoveDuplicates is enabled at no extension point",
            id="arguments-of-nobody",
        ),
    ],
)
def test_what_is_valid_and_does_nothing_is_told(plugins, configs, text):
    _, descheduling = compiled(plugins, *configs)
    assert any(warning.startswith(text) for warning in descheduling.warnings)
