"""Users' plugins: entry points of the group ``dra_reserve.descheduler``, loaded once at start, and guarded.

An entry point names a class or an object with ``name``, ``Args`` and any of ``deschedule``, ``balance``, ``filter``,
``evict`` and ``run`` (`dra.engine.descheduling.plugin`). A plugin that cannot be loaded is left out and reported by the
name of its entry point; the process starts all the same. A plugin that fails later is skipped for the round.
"""

import importlib.metadata
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from controller.descheduling.guarded_plugin import GuardedPlugin
from controller.descheduling.plugin_thread import PluginError, PluginThread, separate_output
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import ENTRY_POINTS, Plugin
from dra.engine.descheduling.plugin_triggers import MalformedTriggerError, checked_triggers
from dra.engine.descheduling.triggers import Trigger

PLUGIN_SECONDS: Final = 10.0
"""Seconds that a plugin may compute in a round, unless the configuration says otherwise."""

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "deschedule": ("snapshot", "args"),
    "balance": ("snapshot", "args"),
    "filter": ("pod", "snapshot", "args"),
    "evict": ("decision", "handle"),
    "run": ("handle",),
}
"""Extension point → the arguments that it is called with."""
_COROUTINES: Final = ("evict", "run")


@dataclass(frozen=True, slots=True)
class UserPlugins:
    """The plugins of users that could be loaded, and why others could not."""

    plugins: Mapping[str, GuardedPlugin] = field(default_factory=dict)
    """Name → plugin with any of deschedule, balance and filter."""
    evictors: Mapping[str, Any] = field(default_factory=dict)
    """Name → object with ``async evict(decision, handle)``."""
    controllers: Mapping[str, Any] = field(default_factory=dict)
    """Name → object with ``async run(handle)``."""
    triggers: Mapping[str, tuple[Trigger, ...]] = field(default_factory=dict)
    """Name → changes that start a round at once."""
    faults: tuple[str, ...] = ()
    """What could not be loaded, and why; each starts with the entry point."""

    @property
    def by_name(self) -> Mapping[str, Plugin]:
        """The plugins as profiles name them."""
        return cast("Mapping[str, Plugin]", self.plugins)


_Loaded: TypeAlias = tuple[Any, str, tuple[Trigger, ...]]
"""A plugin, its name and its triggers."""


class MalformedPluginError(ValueError):
    """An object that is no plugin; the text says what it lacks."""


def load_user_plugins(*, built_in: Collection[str] = (), seconds: float = PLUGIN_SECONDS) -> UserPlugins:
    """Load the plugins of all installed packages; ``built_in`` are the names that no plugin may take.

    ``seconds`` is how long a plugin may compute in a round, and how long its module may take to be imported.
    """
    plugins: dict[str, Any] = {}
    triggers: dict[str, tuple[Trigger, ...]] = {}
    faults: list[str] = []
    for entry in sorted(
        importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, entry.value)
    ):
        separate_output()
        try:
            plugin, name, named = _load(entry, built_in, seconds)
        except (PluginError, MalformedPluginError) as error:
            faults.append(f"entry point {entry.name} = {entry.value}: {error}; the plugin is left out")
            continue
        if name in plugins:
            faults.append(f"entry point {entry.name} = {entry.value}: another plugin has the name {name} already")
            continue
        plugins[name], triggers[name] = plugin, named
    return UserPlugins(
        plugins={name: GuardedPlugin(plugin, seconds=seconds) for name, plugin in plugins.items()},
        evictors={name: plugin for name, plugin in plugins.items() if hasattr(plugin, "evict")},
        controllers={name: plugin for name, plugin in plugins.items() if hasattr(plugin, "run")},
        triggers={name: named for name, named in triggers.items() if named},
        faults=tuple(faults),
    )


def _load(entry: importlib.metadata.EntryPoint, built_in: Collection[str], seconds: float) -> _Loaded:
    """Load a plugin in a thread: importing a module may hang. Raises PluginError and MalformedPluginError."""
    thread = PluginThread(entry.name, _Loader(entry, built_in), "load")
    try:
        loaded: _Loaded | MalformedPluginError = thread.first(within=seconds).result
    finally:
        thread.stop()
    if isinstance(loaded, MalformedPluginError):
        raise loaded
    return loaded


@dataclass(frozen=True, slots=True)
class _Loader:
    """The loading of a plugin, which a thread runs."""

    entry: importlib.metadata.EntryPoint
    built_in: Collection[str]

    def load(self) -> _Loaded | MalformedPluginError:
        """Return the plugin with its name and triggers, or why it is none."""
        loaded = self.entry.load()
        plugin = loaded() if isinstance(loaded, type) else loaded
        try:
            return plugin, *_checked(plugin, self.built_in)
        except MalformedPluginError as error:
            return error


def _checked(plugin: Any, built_in: Collection[str]) -> tuple[str, tuple[Trigger, ...]]:  # noqa: ANN401
    """Return the name and the triggers of a plugin. Raises MalformedPluginError."""
    if (fault := next(_faults(plugin, built_in), "")) != "":
        raise MalformedPluginError(fault)
    try:
        return plugin.name, checked_triggers(getattr(plugin, "triggers", ()))
    except MalformedTriggerError as error:
        raise MalformedPluginError(str(error)) from error


def _faults(plugin: Any, built_in: Collection[str]) -> Iterator[str]:  # noqa: ANN401
    name, args = getattr(plugin, "name", None), getattr(plugin, "Args", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"name: {str(name)[:64]!r} is no name of letters, digits and dashes"
    if name in built_in:
        yield f"name: {name} is the name of a built-in plugin; give the plugin another one"
    if args is None:
        yield "Args: is missing; write class Args(PluginArgs), empty if there are no arguments"
    if not (isinstance(args, type) and issubclass(args, PluginArgs)):
        yield "Args: is no class derived from dra.api.descheduler.plugin_args.PluginArgs"
    points = [point for point in _METHODS if hasattr(plugin, point)]
    if not points:
        yield f"has none of {', '.join(_METHODS)}"
    for point in points:
        yield from _method_faults(getattr(plugin, point), point)


def _method_faults(method: Any, point: str) -> Iterator[str]:  # noqa: ANN401
    wanted = _METHODS[point]
    try:
        inspect.signature(method).bind(*wanted)
    except TypeError:
        yield f"{point}: must take {', '.join(wanted)}"
    if inspect.iscoroutinefunction(method) is not (point in _COROUTINES):
        yield f"{point}: must {'' if point in _COROUTINES else 'not '}be a coroutine (async def)"
