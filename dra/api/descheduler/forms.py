"""The three forms of a descheduler's configuration, read into one: our own.

A file without ``apiVersion`` is our own. ``apiVersion: descheduler/v1alpha2`` stands for two kinds: Koordinator's
DeschedulerConfiguration and the community's DeschedulerPolicy. What neither knows is refused, also where upstream says
nothing and ignores the field.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from dra.api.configuration import Endpoint, LeaderElection
from dra.api.descheduler import strategies
from dra.api.descheduler.configuration import DeschedulerLeaderElection, DeschedulerProcessConfiguration
from dra.api.descheduler.descheduler_policy import DeschedulerPolicy
from dra.api.descheduler.evictor_args import DefaultEvictorArgs, PodProtection
from dra.api.descheduler.koordinator_configuration import (
    API_VERSION,
    DeschedulerConfiguration,
    KoordinatorLeaderElection,
)
from dra.api.descheduler.migration_controller_args import DeleteOptions, MigrationControllerArgs
from dra.api.descheduler.problems import (
    ConfigurationProblem,
    MalformedDeschedulerConfigurationError,
    Path,
    problems_of,
)
from dra.api.descheduler.profile import DeschedulerProfile, PluginReference
from dra.api.durations import SECOND

T = TypeVar("T", bound=BaseModel)

MIGRATION_CONTROLLER: Final = "MigrationController"
DEFAULT_EVICTOR: Final = "DefaultEvictor"

_SWITCHES: Final = {
    "evict_local_storage_pods": PodProtection.LOCAL_STORAGE,
    "evict_system_critical_pods": PodProtection.SYSTEM_CRITICAL,
    "evict_failed_bare_pods": PodProtection.FAILED_BARE,
}
"""Field of MigrationControllerArgs → the protection of DefaultEvictor that is the same."""

_V1ALPHA1: Final = "descheduler/v1alpha1"
_KINDS: Final = ("DeschedulerConfiguration", "DeschedulerPolicy")
_OF_CHART: Final = "deschedulerPolicy"
"""The value of upstream's chart that has the policy."""
_DISABLED: Final = "0"
"""Address of an endpoint that is not served."""
_MAX_PORT: Final = 65535
_MIN_LEASE_SECONDS: Final = 3


def read_configuration(content: Mapping[str, Any]) -> DeschedulerProcessConfiguration:
    """Return the configuration in the content of a file of any form.

    Raises MalformedDeschedulerConfigurationError.
    """
    version, kind = content.get("apiVersion"), content.get("kind")
    if "strategies" in content or version == _V1ALPHA1:
        raise _old_form(content)
    if version is None and kind is None and _OF_CHART not in content:
        return _read_own(content)
    if problem := _wrapped(content):
        raise MalformedDeschedulerConfigurationError([problem])
    if version != API_VERSION:
        raise _malformed(("apiVersion",), f"{version!r} is not {API_VERSION}")
    match kind:
        case "DeschedulerConfiguration":
            return _from_koordinator(_validated(_without_nulls(content), DeschedulerConfiguration))
        case "DeschedulerPolicy":
            return _from_policy(_validated(_without_nulls(content), DeschedulerPolicy))
    raise _malformed(("kind",), f"{kind!r} is none of {', '.join(_KINDS)}")


def read_args(args: Mapping[str, Any], model: type[T], *, plugin: str, at: Path) -> T:
    """Return the arguments of a plugin, below the path of its ``args``.

    An ``apiVersion`` and a ``kind`` may be among the arguments, as Koordinator writes these. Raises
    MalformedDeschedulerConfigurationError.
    """
    kind, version = args.get("kind", f"{plugin}Args"), args.get("apiVersion", API_VERSION)
    if kind != f"{plugin}Args":
        raise _malformed((*at, "kind"), f"{kind!r} is not {plugin}Args")
    if version not in (API_VERSION, f"descheduler.koordinator.sh/{API_VERSION.partition('/')[2]}"):
        raise _malformed((*at, "apiVersion"), f"{version!r} is not {API_VERSION}")
    return _validated({name: value for name, value in args.items() if name not in {"kind", "apiVersion"}}, model, at=at)


def _wrapped(content: Mapping[str, Any]) -> ConfigurationProblem | None:
    """Return what to do with a file that has a configuration inside: a ConfigMap, or values of upstream's chart."""
    if content.get("kind") == "ConfigMap":
        text = "is a ConfigMap; give a file that holds the text of its data alone"
        return ConfigurationProblem(path=("kind",), message=text)
    if _OF_CHART in content:
        text = (
            f"is a value of a chart; give what is below it, with apiVersion: {API_VERSION} and kind: DeschedulerPolicy"
        )
        return ConfigurationProblem(path=(_OF_CHART,), message=text)
    return None


def _malformed(path: Path, message: str) -> MalformedDeschedulerConfigurationError:
    return MalformedDeschedulerConfigurationError([ConfigurationProblem(path=path, message=message)])


def _validated(content: Mapping[str, Any], model: type[T], *, at: Path = ()) -> T:
    try:
        return model.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        raise MalformedDeschedulerConfigurationError(problems_of(error, model, at=at)) from error


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    """Return a part of a document in which, as in Go, a null is an absent field."""
    match value:
        case Mapping():
            return {name: _without_nulls(part) for name, part in value.items() if part is not None}
        case list():
            return [_without_nulls(part) for part in value]
    return value


def _old_form(content: Mapping[str, Any]) -> MalformedDeschedulerConfigurationError:
    path: Path = ("strategies",) if "strategies" in content else ("apiVersion",)
    text = f"{_V1ALPHA1} is no longer read, upstream's descheduler neither; write profiles of {API_VERSION} instead"
    problem = ConfigurationProblem(path=path, message=text)
    return MalformedDeschedulerConfigurationError([problem], proposal=strategies.translate(content))


def _read_own(content: Mapping[str, Any]) -> DeschedulerProcessConfiguration:
    try:
        own = DeschedulerProcessConfiguration.model_validate(content)
    except ValidationError as error:
        raise MalformedDeschedulerConfigurationError(problems_of(error, DeschedulerProcessConfiguration)) from error
    for path, _ in _arguments(own.profiles, MIGRATION_CONTROLLER):
        raise _malformed(path, "give these fields in migration, at the top of the file: all profiles share them")
    return own


def _arguments(profiles: tuple[DeschedulerProfile, ...], plugin: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the path and the content of all arguments of a plugin."""
    for index, profile in enumerate(profiles):
        for position, config in enumerate(profile.plugin_config):
            if config.name == plugin:
                yield ("profiles", index, "pluginConfig", position, "args"), config.args


def _shared_migration(profiles: tuple[DeschedulerProfile, ...]) -> MigrationControllerArgs:
    """Return the arguments of the MigrationController, which carries out the jobs of all profiles."""
    first: MigrationControllerArgs | None = None
    for path, content in _arguments(profiles, MIGRATION_CONTROLLER):
        args = read_args(content, MigrationControllerArgs, plugin=MIGRATION_CONTROLLER, at=path)
        if first is not None and args != first:
            raise _malformed(path, "differ from those of an earlier profile; one controller carries out all jobs")
        first = args
    return MigrationControllerArgs() if first is None else first


def _switches_of_evictors(profiles: tuple[DeschedulerProfile, ...]) -> dict[str, bool]:
    """Return the fields of the MigrationController that let go what a DefaultEvictor does not protect.

    Upstream's policy knows no MigrationController, whose own defaults would protect these pods. Each profile has its
    DefaultEvictor as a filter still.
    """
    given = [
        read_args(content, DefaultEvictorArgs, plugin=DEFAULT_EVICTOR, at=path)
        for path, content in _arguments(profiles, DEFAULT_EVICTOR)
    ]
    return {
        field: True
        for field, protection in _SWITCHES.items()
        if any(protection not in args.protections for args in given)
    }


def _from_koordinator(read: DeschedulerConfiguration) -> DeschedulerProcessConfiguration:
    own = DeschedulerProcessConfiguration()
    connection = read.client_connection
    return own.model_copy(
        update={
            "migration": _shared_migration(read.profiles),
            "descheduling_interval": read.descheduling_interval,
            "dry_run": read.dry_run,
            "node_selector": read.node_selector,
            **_limits(read),
            "profiles": read.profiles,
            "kubeconfig": connection.kubeconfig,
            "qps": connection.qps or own.qps,
            "burst": connection.burst or own.burst,
            "leader_election": _leader_election(read.leader_election),
            "probes": _endpoint("healthzBindAddress", read.healthz_bind_address, own.probes),
            "metrics": _endpoint("metricsBindAddress", read.metrics_bind_address, own.metrics),
        }
    )


def _from_policy(read: DeschedulerPolicy) -> DeschedulerProcessConfiguration:
    profiles = tuple(_with_default_evictor(profile.profile()) for profile in read.profiles)
    migration = _shared_migration(profiles)
    if not any(_arguments(profiles, MIGRATION_CONTROLLER)):
        migration = migration.model_copy(update=_switches_of_evictors(profiles))
    if read.grace_period_seconds is not None and migration.default_delete_options is None:
        options = DeleteOptions(grace_period_seconds=read.grace_period_seconds)
        migration = migration.model_copy(update={"default_delete_options": options})
    return DeschedulerProcessConfiguration().model_copy(
        update={
            "migration": migration,
            "node_selector": read.node_selector,
            **_limits(read),
            "profiles": profiles,
        }
    )


def _limits(read: DeschedulerConfiguration | DeschedulerPolicy) -> dict[str, int | None]:
    return {
        "max_no_of_pods_to_evict_per_node": read.max_no_of_pods_to_evict_per_node,
        "max_no_of_pods_to_evict_per_namespace": read.max_no_of_pods_to_evict_per_namespace,
        "max_no_of_pods_to_evict_total": read.max_no_of_pods_to_evict_total,
    }


def _with_default_evictor(profile: DeschedulerProfile) -> DeschedulerProfile:
    """Return a profile with the filter that the community's descheduler always has."""
    given = profile.plugins.filter
    if any(plugin.name in {DEFAULT_EVICTOR, "*"} for plugin in (*given.enabled, *given.disabled)):
        return profile
    added = given.model_copy(update={"enabled": (*given.enabled, PluginReference(name=DEFAULT_EVICTOR))})
    plugins = profile.plugins.model_copy(update={"filter": added})
    return profile.model_copy(update={"plugins": plugins})


def _leader_election(read: KoordinatorLeaderElection) -> LeaderElection:
    own = DeschedulerLeaderElection()
    if read.lease_duration < _MIN_LEASE_SECONDS * SECOND or read.lease_duration % SECOND:
        raise _malformed(("leaderElection", "leaseDuration"), "must be whole seconds, 3s or more")
    if read.renew_deadline < SECOND:
        raise _malformed(("leaderElection", "renewDeadline"), "must be 1s or more")
    if read.retry_period <= 0:
        raise _malformed(("leaderElection", "retryPeriod"), "must be more than 0s")
    return own.model_copy(
        update={
            "enabled": read.leader_elect,
            "namespace": read.resource_namespace or own.namespace,
            "name": read.resource_name or own.name,
            "lease_seconds": read.lease_duration // SECOND,
            "renew_seconds": read.renew_deadline / SECOND,
            "retry_seconds": read.retry_period / SECOND,
        }
    )


def _endpoint(field: str, given: str, default: Endpoint | None) -> Endpoint | None:
    """Return the endpoint in a text such as ``0.0.0.0:8080``, ``:8080`` or ``0.0.0.0``."""
    if given == _DISABLED:
        return None
    if not given or default is None:
        return default
    host, colon, port = given.rpartition(":")
    if not colon or host.endswith(":"):  # no port; the colons of an address of IPv6 are none of a port
        return default.model_copy(update={"address": given.strip("[]")})
    if not port.isdecimal() or int(port) > _MAX_PORT:
        raise _malformed((field,), f"{given[:64]!r} is no address with a port, as in 0.0.0.0:8080")
    return Endpoint(address=host.strip("[]") or "0.0.0.0", port=int(port))  # noqa: S104 - what no host means in Go
