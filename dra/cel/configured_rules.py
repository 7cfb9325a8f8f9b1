"""Compiles the release rules and suspended rules of the controller's configuration."""

from collections.abc import Mapping
from functools import cache

from dra.api.configuration import ControllerConfiguration, MalformedConfigurationError
from dra.cel.object_rules import MalformedRuleError, WorkloadRules, compile_workload_rules
from dra.model.references import GroupResource


@cache
def _default_expressions() -> frozenset[str]:
    default = ControllerConfiguration()
    return frozenset((*default.release_rules_by_resource().values(), *default.suspended_rules_by_resource().values()))


def compiled_rules(configuration: ControllerConfiguration) -> Mapping[GroupResource, WorkloadRules]:
    """Return the compiled rules of each kind; raise MalformedConfigurationError, which names the rule."""
    try:
        return compile_workload_rules(
            configuration.release_rules_by_resource(),
            configuration.suspended_rules_by_resource(),
            valid=_default_expressions(),
        )
    except MalformedRuleError as error:
        raise MalformedConfigurationError(f"releaseRules: {error}") from error
