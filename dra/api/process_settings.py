"""Settings of a process that need no configuration file: log lines and listening addresses.

`dra.api.configuration` has them as sections of its files. The kubelet plugin, which is configured by flags, takes them
from here: pydantic, which checks files, is 13 MiB on each node.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol


class LogFormat(StrEnum):
    """The format of log lines: JSON or text."""

    JSON = "json"
    TEXT = "text"


class LogLevel(StrEnum):
    """The lowest level of messages that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"


class LogSettings(Protocol):
    """The format and level of log lines."""

    @property
    def format(self) -> LogFormat:
        """The format of log lines."""
        ...

    @property
    def level(self) -> LogLevel:
        """The lowest level that is written."""
        ...


class ListenAddress(Protocol):
    """An address and a port to listen on; port 0 takes a free port, which the log names."""

    @property
    def address(self) -> str:
        """The IP address to listen on."""
        ...

    @property
    def port(self) -> int:
        """The port to listen on."""
        ...


class LogFlags(NamedTuple):
    """The log settings of a command line."""

    format: LogFormat
    level: LogLevel


class AddressFlag(NamedTuple):
    """A listening address of a command line."""

    address: str
    port: int
