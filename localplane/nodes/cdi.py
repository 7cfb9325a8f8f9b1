"""The environment that CDI device names give to a container: all of the CDI that a process can have.

CDI (Container Device Interface) files are read on each call, because plugins write them just before they respond. As in
a container runtime, an unreadable file describes no device, and a name that two files describe cannot be resolved. A
device brings its own container edits and those of its file. Only their environment reaches a process; the later value
wins.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})


class CdiInjectionError(Exception):
    """The devices of a container cannot be injected; the text is the container runtime's."""


def device_environment(folder: Path | None, names: Sequence[str]) -> dict[str, str]:
    """Return the environment that some devices give to a container; raises `CdiInjectionError`."""
    known: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for spec in _specs(folder) if folder is not None else ():
        for device in spec["devices"]:
            known.setdefault(f"{spec['kind']}={device['name']}", []).append((spec, device))
    missing = [name for name in names if len(known.get(name, ())) != 1]
    if missing:
        raise CdiInjectionError(f"unresolvable CDI devices {', '.join(missing)}")
    environment: dict[str, str] = {}
    seen: list[Mapping[str, Any]] = []
    for name in names:
        [(spec, device)] = known[name]
        if not any(other is spec for other in seen):
            seen.append(spec)
            environment |= _env(spec)
        environment |= _env(device)
    return environment


def _specs(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the valid CDI specs of a folder."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix not in _SUFFIXES or path.name.startswith("."):
            continue
        try:
            text = path.read_text(encoding="utf-8")
            spec = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if _is_valid(spec):
            yield spec


def _is_valid(spec: object) -> bool:
    """Report whether a document has the shape of a CDI file, as far as it is read here."""
    return (
        isinstance(spec, dict)
        and isinstance(spec.get("kind"), str)
        and isinstance(spec.get("devices"), list)
        and all(isinstance(device, dict) and isinstance(device.get("name"), str) for device in spec["devices"])
        and all(_has_valid_env(holder) for holder in (spec, *spec["devices"]))
    )


def _has_valid_env(holder: Mapping[str, Any]) -> bool:
    edits = holder.get("containerEdits") or {}
    env = (edits.get("env") or []) if isinstance(edits, dict) else None
    return isinstance(env, list) and all(isinstance(variable, str) and variable.partition("=")[0] for variable in env)


def _env(holder: Mapping[str, Any]) -> dict[str, str]:
    edits = holder.get("containerEdits") or {}
    return {name: value for name, _, value in (variable.partition("=") for variable in edits.get("env") or ())}
