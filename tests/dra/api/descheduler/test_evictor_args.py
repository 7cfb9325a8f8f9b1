"""The protections of DefaultEvictor, in the form of today and in that of earlier versions."""

import pytest
from pydantic import ValidationError

from dra.api.descheduler.evictor_args import DEFAULT_PROTECTIONS, DefaultEvictorArgs, PodProtection
from tests.violations import for_each_case

DEFAULTS = {*DEFAULT_PROTECTIONS}


@for_each_case(
    [
        pytest.param({}, DEFAULTS, id="defaults"),
        pytest.param({"evictLocalStoragePods": True}, DEFAULTS - {PodProtection.LOCAL_STORAGE}, id="local-storage"),
        pytest.param({"evictDaemonSetPods": True}, DEFAULTS - {PodProtection.DAEMON_SETS}, id="daemon-sets"),
        pytest.param({"evictSystemCriticalPods": True}, DEFAULTS - {PodProtection.SYSTEM_CRITICAL}, id="critical"),
        pytest.param({"evictFailedBarePods": True}, DEFAULTS - {PodProtection.FAILED_BARE}, id="failed-bare"),
        pytest.param({"ignorePvcPods": True}, DEFAULTS | {PodProtection.PVC}, id="volume-claims"),
        pytest.param({"ignorePodsWithoutPDB": True}, DEFAULTS | {PodProtection.WITHOUT_PDB}, id="without-a-budget"),
        pytest.param(
            {"podProtections": {"extraEnabled": ["PodsWithResourceClaims"], "defaultDisabled": ["DaemonSetPods"]}},
            DEFAULTS - {PodProtection.DAEMON_SETS} | {PodProtection.RESOURCE_CLAIMS},
            id="form-of-today",
        ),
    ]
)
def test_the_protections_in_force(fields, protections):
    assert DefaultEvictorArgs.model_validate(fields).protections == protections


def test_storage_classes_are_read_by_the_name_of_their_protection():
    classes = {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}}
    args = DefaultEvictorArgs.model_validate({"podProtections": {"extraEnabled": ["PodsWithPVC"], "config": classes}})
    assert args.pod_protections.config.pods_with_pvc.protected_storage_classes[0].name == "fast"


def test_a_storage_class_needs_a_name():
    with pytest.raises(ValidationError, match="at least 1 character"):
        DefaultEvictorArgs.model_validate(
            {"podProtections": {"config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": ""}]}}}}
        )
