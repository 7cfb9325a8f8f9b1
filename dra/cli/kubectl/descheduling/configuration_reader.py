"""Finds the configuration of the descheduler for a dry run: in a file, or in the ConfigMap of the installation.

The descheduler's Deployment tells which ConfigMap and which of its keys: kustomize appends a hash to the name, and the
chart has a name of its own. A user who may not read them gets an answer, too: by the defaults, which the output says.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, cast

import click

from controller.descheduling.user_plugins import load_user_plugins
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.cli import descheduler_file
from dra.cli.descheduler_file import DeschedulerFile
from dra.cli.kubectl.connection import Connection, has_plane_component
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.snapshots.mounted_configuration import (
    ConfiguredContainer,
    ConfiguredDeployment,
    ConfiguredPodSpec,
)
from dra.engine.descheduling.plugin import Plugin
from dra.engine.descheduling.plugin_catalog import BUILT_IN_NAMES
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CONFIG_MAPS, DEPLOYMENTS
from dra.model.node_pods import ConfigMap

DEPLOYMENT_NAME: Final = "dra-reserve-descheduler"
_SUBCOMMAND: Final = "descheduler"
_FLAG: Final = "--config"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedConfiguration:
    """The configuration that a dry run assumes, and a text that says whose it is."""

    file: DeschedulerFile
    text: str
    faults: tuple[str, ...] = ()
    """Plugins of users that could not be loaded, and why."""
    is_somebodys: bool = True
    """Whether a file was given, or a descheduler is installed, of whatever configuration."""

    @property
    def args(self) -> MigrationControllerArgs:
        """The limits and rules of migrations."""
        return self.file.configuration.migration


class _UnknownConfigurationError(Exception):
    """The configuration cannot be found or read; the text says why."""


class _NoDeploymentError(_UnknownConfigurationError):
    """No Deployment of a descheduler is known."""


def read_configuration_file(path: Path) -> AssumedConfiguration:
    """Return the configuration in a file; raise FailedError if the descheduler would reject the file."""
    try:
        return _parse(path.read_text(encoding="utf-8"), name=f"configuration {path}", whose=str(path))
    except click.ClickException as error:
        raise FailedError(error.message) from error
    except (OSError, UnicodeDecodeError) as error:
        raise FailedError(f"configuration {path}: {error}") from error


def _parse(text: str, *, name: str, whose: str) -> AssumedConfiguration:
    """Return the configuration in a text of any of the three forms; raise click.ClickException.

    Plugins of users are those that are installed beside the command.
    """
    users = load_user_plugins(built_in=BUILT_IN_NAMES)
    plugins = cast("Mapping[str, Plugin]", users.plugins)  # a guarded plugin has these fields for itself
    try:
        file = descheduler_file.parse(text, name=name, plugins=plugins)
    except click.ClickException as error:
        raise click.ClickException("\n".join((error.message, *users.faults))) from error
    return AssumedConfiguration(file=file, text=f"limits and rules are those of {whose}", faults=users.faults)


async def read_configuration(connection: Connection, namespace: str) -> AssumedConfiguration:
    """Return the configuration of the descheduler that is installed in a namespace; the defaults if it is unknown."""
    try:
        return await _read_installed(connection, namespace)
    except _UnknownConfigurationError as error:
        why, is_somebodys = str(error), not isinstance(error, _NoDeploymentError)
    if await has_plane_component(connection.client, _SUBCOMMAND):
        return _defaults("the descheduler of the local plane has no others", is_somebodys=False)
    return _defaults(f"{why}; name the descheduler's configuration file with --config", is_somebodys=is_somebodys)


def _defaults(why: str, *, is_somebodys: bool = True) -> AssumedConfiguration:
    text = f"limits and rules are the defaults of the descheduler's configuration: {why}"
    return AssumedConfiguration(file=descheduler_file.load(None), text=text, is_somebodys=is_somebodys)


async def _read_installed(connection: Connection, namespace: str) -> AssumedConfiguration:
    name = f"deployment {namespace}/{DEPLOYMENT_NAME}"
    with _api_errors_as(_NoDeploymentError, name=name):
        deployment = await connection.client.get(DEPLOYMENTS, (namespace, DEPLOYMENT_NAME), ConfiguredDeployment)
    pod = deployment.spec.template.spec
    container = next((candidate for candidate in pod.containers if _SUBCOMMAND in candidate.words), None)
    if container is None:
        raise _UnknownConfigurationError(f"{name} does not run dra-reserve {_SUBCOMMAND}")
    path = _configuration_path(container)
    if not path:
        return _defaults(f"{name} has no {_FLAG}")
    key = _config_map_key(pod, container, path)
    if key is None:
        raise _UnknownConfigurationError(f"{name}: {path} comes from no ConfigMap")
    config_map, entry = key
    source = f"configmap {namespace}/{config_map}"
    with _api_errors_as(_UnknownConfigurationError, name=source):
        config_map_object = await connection.client.get(CONFIG_MAPS, (namespace, config_map), ConfigMap)
        content = (config_map_object.data or {}).get(entry)
        if content is None:
            raise _UnknownConfigurationError(f"{source} has no key {entry}")
        return _parse(content, name=source, whose=source)


@contextmanager
def _api_errors_as(error_type: type[_UnknownConfigurationError], *, name: str) -> Iterator[None]:
    """Raise an error of this type for an object that is missing, may not be read, or is no configuration."""
    try:
        yield
    except NotFound:
        raise error_type(f"{name} does not exist") from None
    except Forbidden as error:
        raise error_type(str(error)) from error
    except click.ClickException as error:
        raise error_type(error.message) from error


def _configuration_path(container: ConfiguredContainer) -> str:
    """Return the value of ``--config``; empty if the flag is not given."""
    words = container.words
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == _FLAG:
            return following
        if word.startswith(f"{_FLAG}="):
            return word.removeprefix(f"{_FLAG}=")
    return ""


def _config_map_key(pod: ConfiguredPodSpec, container: ConfiguredContainer, path: str) -> tuple[str, str] | None:
    """Return the name and the key of the ConfigMap that a file comes from; None if it comes from none."""
    file = PurePosixPath(path)
    mounts = [
        volume_mount for volume_mount in container.volume_mounts or () if file.is_relative_to(volume_mount.mount_path)
    ]
    mount = max(mounts, key=lambda volume_mount: len(PurePosixPath(volume_mount.mount_path).parts), default=None)
    if mount is None:
        return None
    source = next((volume.config_map for volume in pod.volumes or () if volume.name == mount.name), None)
    if source is None:
        return None
    inside = str(PurePosixPath(mount.sub_path) / file.relative_to(mount.mount_path))
    items = {item.path: item.key for item in source.items or ()}
    return (source.name, items.get(inside, inside))
