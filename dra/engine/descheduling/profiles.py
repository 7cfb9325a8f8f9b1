"""A configuration compiled: the profiles that rounds run, their limits, and what people should know about both.

Defaults are merged as in Koordinator: an extension point has its default plugins unless they are disabled, then those
that are enabled. Of the plugins that evict, the first one acts; the filters must all let a pod go.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, cast

from pydantic import ValidationError

from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.descheduler.evictor_args import DefaultEvictorArgs
from dra.api.descheduler.forms import DEFAULT_EVICTOR, MIGRATION_CONTROLLER, read_args
from dra.api.descheduler.label_selector import LabelSelector
from dra.api.descheduler.migration_controller_args import Approval, MigrationControllerArgs
from dra.api.descheduler.plugin_args import PluginArgs
from dra.api.descheduler.problems import (
    ConfigurationProblem,
    MalformedDeschedulerConfigurationError,
    Path,
    format_path,
    problems_of,
)
from dra.api.descheduler.profile import ALL, DeschedulerProfile, PluginSet
from dra.api.durations import SECOND, format_duration
from dra.api.migration.model import EvictionPolicy, MigrationMode
from dra.engine.descheduling.balance_conflicts import conflicts
from dra.engine.descheduling.plugin import Plugin
from dra.engine.descheduling.plugin_catalog import EVICTORS, POINTS, PluginCatalog
from dra.engine.descheduling.round import Limits, Profile
from dra.model.scheduling import SchedulerNode

ANSWER_TIME: Final = 3600 * SECOND
"""Time to live of jobs below which approvals are missed: the alert about jobs that wait comes after half an hour."""

DEFAULT_PROFILE: Final = "koord-descheduler"
"""Name of the only profile if it has none, as in Koordinator."""

_NAME_MAX: Final = 63
_DEFAULTS: Final = {"evict": (MIGRATION_CONTROLLER,), "filter": (MIGRATION_CONTROLLER,)}
_FILTER_POINTS: Final = ("filter", "preevictionfilter")
_IGNORED_POINTS: Final = ("presort", "sort")

_NO_PLUGINS: Final[Mapping[str, Plugin]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes of a profile, as selectors; None selects all."""

    of_pods: tuple[LabelSelector, ...] = ()
    """Selectors of the nodes whose pods are evicted; a node must match all."""
    receivers: tuple[LabelSelector, ...] = ()
    """Selectors of the nodes that may receive pods."""


@dataclass(frozen=True, slots=True)
class Descheduling:
    """The rounds of a configuration."""

    interval: float
    """Seconds between two rounds; 0: one round."""
    dry_run: bool
    limits: Limits
    profiles: tuple[Profile, ...]
    """The profiles, each for all nodes; see `profiles_on`."""
    selections: tuple[NodeSelection, ...]
    """The nodes of each profile."""
    migration: MigrationControllerArgs
    warnings: tuple[str, ...] = ()
    """What is valid, and probably not meant; each text starts with a path."""

    def profiles_on(self, nodes: Iterable[SchedulerNode]) -> tuple[Profile, ...]:
        """Return the profiles of a round, with the nodes that their selectors select."""
        labels = {node.metadata.name: node.metadata.labels or {} for node in nodes}
        return tuple(
            replace(
                profile,
                nodes=_selected(labels, selection.of_pods),
                receivers=_selected(labels, selection.receivers),
            )
            for profile, selection in zip(self.profiles, self.selections, strict=True)
        )


def _selected(labels: Mapping[str, Mapping[str, str]], selectors: tuple[LabelSelector, ...]) -> frozenset[str] | None:
    if not selectors:
        return None
    return frozenset(name for name, given in labels.items() if all(one.selects(given) for one in selectors))


def compile_descheduling(
    configuration: DeschedulerProcessConfiguration, *, plugins: Mapping[str, Plugin] = _NO_PLUGINS
) -> Descheduling | None:
    """Return the rounds of a configuration; None if it has no profiles.

    ``plugins``: those of users, by name, beside the built-in ones. Raises MalformedDeschedulerConfigurationError.
    """
    if not configuration.profiles:
        return None
    catalog, problems = PluginCatalog(plugins), list(_name_problems(configuration.profiles))
    compilers = [
        _ProfileCompiler(profile, catalog=catalog, at=("profiles", index), migration=configuration.migration)
        for index, profile in enumerate(configuration.profiles)
    ]
    compiled = [compiler.compile() for compiler in compilers]
    problems += [problem for compiler in compilers for problem in compiler.problems]
    if problems:
        raise MalformedDeschedulerConfigurationError(problems)
    everywhere = (configuration.node_selector,) if configuration.node_selector is not None else ()
    balance = [entry for compiler in compilers for entry in compiler.balance]
    return Descheduling(
        interval=configuration.descheduling_interval / SECOND,
        dry_run=configuration.dry_run,
        limits=Limits(
            per_node=configuration.max_no_of_pods_to_evict_per_node,
            per_namespace=configuration.max_no_of_pods_to_evict_per_namespace,
            total=configuration.max_no_of_pods_to_evict_total,
        ),
        profiles=tuple(compiled),
        selections=tuple(compiler.selection(everywhere) for compiler in compilers),
        migration=configuration.migration,
        warnings=(
            *(text for compiler in compilers for text in compiler.warnings),
            *conflicts(balance),
            *_approval_warnings(configuration.migration, compiled),
        ),
    )


def _approval_warnings(migration: MigrationControllerArgs, profiles: Iterable[Profile]) -> Iterator[str]:
    """Yield a text if jobs expire before people can be expected to answer: the pause does not stop their time."""
    ttl = migration.default_job_ttl
    makes_jobs = any(profile.evictor == MIGRATION_CONTROLLER for profile in profiles)
    if migration.approval is Approval.REQUIRED and makes_jobs and 0 < ttl < ANSWER_TIME:
        yield (
            f"migration.approval: Required, and a job without an answer within {format_duration(ttl)} ends "
            "(defaultJobTTL); give people more time, such as 24h"
        )


def _name_problems(profiles: tuple[DeschedulerProfile, ...]) -> Iterator[ConfigurationProblem]:
    first: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path = ("profiles", index, "name")
        if not profile.name and len(profiles) > 1:
            yield ConfigurationProblem(path=path, message="is missing; several profiles need names")
        elif profile.name in first:
            text = f"{profile.name!r} is the name of {format_path(('profiles', first[profile.name]))} already"
            yield ConfigurationProblem(path=path, message=text)
        elif len(profile.name) > _NAME_MAX or "/" in profile.name:
            text = f"must have at most {_NAME_MAX} characters and no slash: Events and metrics carry the name"
            yield ConfigurationProblem(path=path, message=text)
        first.setdefault(profile.name, index)


@dataclass(slots=True)
class _ProfileCompiler:
    """Compiles one profile; collects everything that is wrong with it, so that people correct all at once."""

    given: DeschedulerProfile
    catalog: PluginCatalog
    at: Path
    migration: MigrationControllerArgs
    problems: list[ConfigurationProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    balance: list[tuple[Path, str, PluginArgs]] = field(default_factory=list)
    """The Balance plugins that are enabled, each with its path and arguments."""
    _args: dict[str, PluginArgs | None] = field(default_factory=dict)
    """Plugin → its arguments; None if these are malformed."""

    def compile(self) -> Profile:
        """Return the profile; without meaning if there are problems."""
        self._read_arguments()
        self._check_disabled()
        deschedule = self._enabled("deschedule")
        balance = self._enabled("balance")
        filters = [entry for point in _FILTER_POINTS for entry in self._enabled(point)]
        for point in _IGNORED_POINTS:
            self._check_known(point)
        evictor = self._evictor()
        if evictor != MIGRATION_CONTROLLER and self.migration.approval is Approval.REQUIRED:
            self._warn(("plugins", "evict"), f"{evictor} makes no jobs, so approval: Required has no effect")
        if not filters and evictor != MIGRATION_CONTROLLER:  # whose arbitration protects pods in any case
            filters = self._last_filter()
        if not (deschedule or balance or self.problems):
            self._warn(("plugins",), "no plugin of deschedule or balance is enabled, so the profile does nothing")
        self._warn_of_unread_arguments()
        self.balance = [(path, plugin.name, args) for path, plugin, args in balance]
        return Profile(
            name=self.given.name or DEFAULT_PROFILE,
            deschedule=cast("Any", _pairs(deschedule)),
            balance=cast("Any", _pairs(balance)),
            filters=cast("Any", _pairs(filters)),
            evictor=evictor,
            requires_place=self._requires_place(evictor),
            eviction_policy=(
                self.migration.eviction_policy if evictor == MIGRATION_CONTROLLER else EvictionPolicy.EVICTION
            ),
        )

    def selection(self, everywhere: tuple[LabelSelector, ...]) -> NodeSelection:
        """Return the nodes of the profile; ``everywhere``: the selectors of all profiles."""
        own = (self.given.node_selector,) if self.given.node_selector is not None else ()
        given = (self.migration.node_selector, self._evictor_args.node_selector)
        receivers = tuple(selector for selector in given if selector is not None)
        return NodeSelection(of_pods=(*everywhere, *own), receivers=receivers)

    @property
    def _evictor_args(self) -> DefaultEvictorArgs:
        args = self._args.get(DEFAULT_EVICTOR)
        return args if isinstance(args, DefaultEvictorArgs) else DefaultEvictorArgs()

    def _requires_place(self, evictor: str) -> bool:
        reserves = (
            evictor == MIGRATION_CONTROLLER and self.migration.default_job_mode is MigrationMode.RESERVATION_FIRST
        )
        return reserves or self.migration.node_fit or self._evictor_args.node_fit

    def _problem(self, path: Path, message: str) -> None:
        self.problems.append(ConfigurationProblem(path=(*self.at, *path), message=message))

    def _warn(self, path: Path, message: str) -> None:
        self.warnings.append(f"{format_path((*self.at, *path))}: {message}")

    def _read_arguments(self) -> None:
        first: dict[str, int] = {}
        for index, config in enumerate(self.given.plugin_config):
            path: Path = ("pluginConfig", index)
            plugin = self.catalog.find(config.name)
            if config.name in first:
                earlier = format_path((*self.at, "pluginConfig", first[config.name]))
                text = f"{config.name} has arguments in {earlier} already; write them in one place"
                self._problem((*path, "name"), text)
            elif plugin is None:
                self._problem((*path, "name"), self.catalog.unknown_text(config.name))
            else:
                self._args[config.name] = self._validated(plugin, config.args, path=(*path, "args"))
            first.setdefault(config.name, index)

    def _validated(self, plugin: Plugin, content: Mapping[str, Any], *, path: Path) -> PluginArgs | None:
        if plugin.name == MIGRATION_CONTROLLER:
            return self.migration
        try:
            return read_args(content, plugin.Args, plugin=plugin.name, at=(*self.at, *path))
        except MalformedDeschedulerConfigurationError as error:
            self.problems.extend(error.problems)
            return None

    def _names(self, point: str) -> list[tuple[str, Path]]:
        """Return the plugins of an extension point in their order, each with its path."""
        given: PluginSet = getattr(self.given.plugins, point)
        disabled = {reference.name for reference in given.disabled}
        enabled: dict[str, Path] = {}
        for index, reference in enumerate(given.enabled):
            path: Path = ("plugins", point, "enabled", index)
            if reference.name in enabled:
                self._problem(path, f"{reference.name} is enabled twice")
            enabled.setdefault(reference.name, path)
        defaults = () if ALL in disabled else tuple(name for name in _DEFAULTS.get(point, ()) if name not in disabled)
        kept = {name: enabled.get(name, ("plugins", point)) for name in defaults}
        return list((kept | enabled).items())

    def _enabled(self, point: str) -> list[tuple[Path, Plugin, PluginArgs]]:
        method = "filter" if point in _FILTER_POINTS else point
        entries = []
        for name, path in self._names(point):
            plugin = self.catalog.find(name)
            if plugin is None:
                self._problem(path, self.catalog.unknown_text(name))
            elif method not in self.catalog.points(plugin):
                self._problem(path, self._wrong_point_text(plugin))
            elif (args := self._args_of(plugin, path=path)) is not None:
                entries.append((path, plugin, args))
        return entries

    def _last_filter(self) -> list[tuple[Path, Plugin, PluginArgs]]:
        """Return DefaultEvictor as the filter where none is enabled: the API would evict static pods, too."""
        path: Path = ("plugins", "filter")
        plugin = self.catalog.find(DEFAULT_EVICTOR)
        args = None if plugin is None else self._args_of(plugin, path=path)
        if plugin is None or args is None:
            return []
        self._warn(path, f"no filter is enabled and no job is arbitrated, so {DEFAULT_EVICTOR} protects pods")
        return [(path, plugin, args)]

    def _wrong_point_text(self, plugin: Plugin) -> str:
        points = " or ".join(f"plugins.{point}" for point in self.catalog.points(plugin))
        return f"{plugin.name} has no part here; enable it under {points}"

    def _args_of(self, plugin: Plugin, *, path: Path) -> PluginArgs | None:
        """Return the arguments of an enabled plugin: the configured ones, or its defaults."""
        if plugin.name == MIGRATION_CONTROLLER:
            return self.migration
        if plugin.name not in self._args:
            try:
                self._args[plugin.name] = plugin.Args()
            except ValidationError as error:
                missing = "; ".join(str(problem) for problem in problems_of(error, plugin.Args))
                self._problem(path, f"{plugin.name} needs arguments in pluginConfig: {missing}")
                self._args[plugin.name] = None
        return self._args[plugin.name]

    def _check_disabled(self) -> None:
        for point in type(self.given.plugins).model_fields:
            for index, reference in enumerate(getattr(self.given.plugins, point).disabled):
                if reference.name != ALL and self.catalog.find(reference.name) is None:
                    path = ("plugins", point, "disabled", index)
                    self._problem(path, self.catalog.unknown_text(reference.name))

    def _check_known(self, point: str) -> None:
        for name, path in self._names(point):
            if self.catalog.find(name) is None:
                self._problem(path, self.catalog.unknown_text(name))

    def _evictor(self) -> str:
        """Return the plugin that evicts: the first one that is enabled."""
        names = self._names("evict")
        for name, path in names:
            plugin = self.catalog.find(name)
            if plugin is None:
                self._problem(path, self.catalog.unknown_text(name))
            elif "evict" not in self.catalog.points(plugin):
                self._problem(path, self._wrong_point_text(plugin))
        if not names:
            self._problem(("plugins", "evict"), f"no plugin evicts; enable {' or '.join(EVICTORS)}")
            return ""
        first = names[0][0]
        if len(names) > 1:
            rest = ", ".join(name for name, _ in names[1:])
            text = f"only the first plugin evicts, {first}; {rest} has no effect unless the first one is disabled"
            self._warn(("plugins", "evict"), text)
        return first

    def _warn_of_unread_arguments(self) -> None:
        enabled = {name for point in (*POINTS, "preevictionfilter") for name, _ in self._names_quietly(point)}
        for index, config in enumerate(self.given.plugin_config):
            if config.name not in enabled:
                text = f"{config.name} is enabled at no extension point, so its arguments have no effect"
                self._warn(("pluginConfig", index), text)

    def _names_quietly(self, point: str) -> list[tuple[str, Path]]:
        """Return the plugins of an extension point, without recording their problems a second time."""
        before = len(self.problems)
        names = self._names(point)
        del self.problems[before:]
        return names


def _pairs(entries: list[tuple[Path, Plugin, PluginArgs]]) -> tuple[tuple[Plugin, PluginArgs], ...]:
    return tuple({plugin.name: (plugin, args) for _, plugin, args in entries}.values())
