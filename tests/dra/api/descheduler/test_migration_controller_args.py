import pytest
from pydantic import ValidationError

from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.descheduler.migration_controller_args import MINUTE, EvictionGate, MigrationControllerArgs
from dra.api.migration.model import EvictionPolicy, MigrationMode
from tests.violations import for_each_case


def migration(**fields):
    return DeschedulerProcessConfiguration.model_validate({"migration": fields}).migration


def problems(content):
    with pytest.raises(ValidationError) as refused:
        DeschedulerProcessConfiguration.model_validate(content)
    return {".".join(map(str, error["loc"])): error["msg"] for error in refused.value.errors()}


def test_nothing_need_be_set():
    chosen = DeschedulerProcessConfiguration()
    assert chosen.probes.port != chosen.metrics.port
    assert chosen.leader_election.name == "dra-reserve-descheduler"
    args = chosen.migration
    assert (args.default_job_mode, args.default_job_ttl) == (MigrationMode.RESERVATION_FIRST, 5 * MINUTE)
    assert (args.evict_qps, args.evict_burst, args.eviction_policy) == (10, 1, EvictionPolicy.EVICTION)
    assert (args.max_migrating_globally, args.max_migrating_per_namespace, args.max_migrating_per_node) == (
        None,
        None,
        2,
    )
    assert args.object_limiters.workload.duration == 5 * MINUTE


def test_the_arguments_of_koordinator_are_read():
    args = migration(
        defaultJobMode="EvictDirectly",
        defaultJobTTL="1h30m",
        schedulerNames=["koord-scheduler"],
        evictionPolicy="SoftEviction",
        evictQPS=0.5,
        evictBurst=3,
        maxMigratingGlobally=5,
        maxMigratingPerWorkload="20%",
        maxUnavailablePerWorkload=0,
        objectLimiters={"workload": {"duration": "10m", "maxMigrating": 2}},
        priorityThreshold=1000,
        labelSelector={"matchLabels": {"app": "web"}},
        namespaces={"exclude": ["kube-system"]},
        skipEvictionGates=["MaxMigratingPerNode", "PVC"],
    )
    assert (args.default_job_mode, args.default_job_ttl) == (MigrationMode.EVICT_DIRECTLY, 90 * MINUTE)
    assert (args.max_migrating_per_workload, args.max_unavailable_per_workload) == ("20%", 0)
    assert (args.object_limiters.workload.duration, args.object_limiters.workload.max_migrating) == (10 * MINUTE, 2)
    assert args.label_selector.match_labels == {"app": "web"}
    assert args.priority_threshold.value == 1000
    assert args.namespaces.exclude == ("kube-system",)
    assert args.skip_eviction_gates == (EvictionGate.MAX_MIGRATING_PER_NODE, EvictionGate.PVC)


def test_labels_may_be_given_without_the_word_match_labels():
    assert migration(labelSelector={"app": "web"}).label_selector.match_labels == {"app": "web"}
    assert migration(labelSelector=None).label_selector is None


def test_what_is_written_is_what_was_read():
    args = MigrationControllerArgs()
    assert args.model_dump(mode="json", by_alias=True)["defaultJobTTL"] == "5m0s"
    assert MigrationControllerArgs.model_validate(args.model_dump(mode="json", by_alias=True)) == args


@for_each_case(
    [
        pytest.param({"maxMigrating": 1}, "maxMigrating", "Extra inputs", id="unknown-field"),
        pytest.param({"defaultJobMode": "Drain"}, "defaultJobMode", "'ReservationFirst' or", id="no-such-mode"),
        pytest.param({"defaultJobTTL": "-5m"}, "defaultJobTTL", "must be 0s or more", id="in-the-past"),
        pytest.param({"defaultJobTTL": 300}, "defaultJobTTL", "add a unit, for example", id="ttl-number"),
        pytest.param({"defaultJobTTL": "1d"}, "defaultJobTTL", "'1d' is not a duration", id="days"),
        pytest.param({"schedulerNames": []}, "schedulerNames", "at least 1 item", id="no-scheduler"),
        pytest.param({"unschedulableSeconds": 0}, "unschedulableSeconds", "greater than 0", id="no-wait"),
        pytest.param({"evictionPolicy": "Kill"}, "evictionPolicy", "'Eviction', 'Delete' or", id="no-such-policy"),
        pytest.param({"evictQPS": 0}, "evictQPS", "greater than 0", id="no-evictions"),
        pytest.param({"evictBurst": 0}, "evictBurst", "greater than or equal to 1", id="none-at-once"),
        pytest.param({"maxMigratingGlobally": -1}, "maxMigratingGlobally", "0 means no limit here", id="globally"),
        pytest.param({"maxMigratingPerNode": -1}, "maxMigratingPerNode", "0 means no limit here", id="per-node"),
        pytest.param(
            {"maxMigratingPerWorkload": -1},
            "maxMigratingPerWorkload",
            "-1 is neither a number of pods, 0 or more, nor a percentage such as 10%",
            id="fewer-than-none",
        ),
        pytest.param({"maxMigratingPerWorkload": "10"}, "maxMigratingPerWorkload", "'10' is neither", id="no-percent"),
        pytest.param(
            {"maxUnavailablePerWorkload": "-5%"}, "maxUnavailablePerWorkload", "'-5%' is neither", id="negative-percent"
        ),
        pytest.param({"maxUnavailablePerWorkload": True}, "maxUnavailablePerWorkload", "True is neither", id="boolean"),
        pytest.param(
            {"objectLimiters": {"workload": {"duration": "-1m"}}},
            "objectLimiters.workload.duration",
            "must be 0s or more",
            id="window",
        ),
        pytest.param(
            {"objectLimiters": {"node": {}}}, "objectLimiters.node", "Extra inputs", id="no-such-object-limiter"
        ),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}},
            "labelSelector.matchExpressions.0.operator",
            "'In', 'NotIn', 'Exists'",
            id="no-such-operator",
        ),
        pytest.param(
            {"namespaces": {"include": ["a"], "exclude": ["b"]}},
            "namespaces",
            "include or exclude, not both",
            id="both",
        ),
        pytest.param(
            {"skipEvictionGates": ["PVC", "Pdb"]},
            "skipEvictionGates.1",
            "'MaxMigratingGlobally', 'ExpectedReplicas', 'PVC'",
            id="no-such-gate",
        ),
        pytest.param({"skipEvictionGates": ["pvc"]}, "skipEvictionGates.0", "Input should be", id="gate-in-lower-case"),
    ],
)
def test_mistakes_are_answered_with_the_name_of_the_field(fields, field, text):
    found = problems({"migration": fields})
    assert list(found) == [f"migration.{field}"]
    assert text in found[f"migration.{field}"]
