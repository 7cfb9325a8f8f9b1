"""Compiles the release rules and suspended rules of the controller's configuration."""

from collections.abc import Mapping

from dra.api.configuration import ControllerConfiguration, MalformedConfigurationError
from dra.cel.object_rules import MalformedRuleError, WorkloadRules, compile_workload_rules
from dra.model.references import GroupResource


def compiled_rules(configuration: ControllerConfiguration) -> Mapping[GroupResource, WorkloadRules]:
    """Return the compiled rules of each kind; raise MalformedConfigurationError, which names the rule."""
    try:
        return compile_workload_rules(
            configuration.release_rules_by_resource(), configuration.suspended_rules_by_resource()
        )
    except MalformedRuleError as error:
        raise MalformedConfigurationError(f"releaseRules: {error}") from error
