"""Reads the configuration file of a descheduler, of any of its three forms; errors name the line.

A file whose indentation is wrong is no YAML. If one block only has to move, the error shows the file with that block
moved: the sample in Koordinator's release notes of v1.2 is such a file.
"""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
import yaml

from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.descheduler.forms import read_configuration
from dra.api.descheduler.problems import (
    ConfigurationProblem,
    MalformedDeschedulerConfigurationError,
    format_path,
)
from dra.api.descheduler.problems import Path as FieldPath
from dra.engine.descheduling.plugin import Plugin
from dra.engine.descheduling.profiles import Descheduling, compile_descheduling

_MAX_SHIFT: Final = 4
"""Columns by which a block is moved at most to repair a file."""


@dataclass(frozen=True, slots=True)
class DeschedulerFile:
    """A configuration and what it means."""

    configuration: DeschedulerProcessConfiguration
    descheduling: Descheduling | None
    """The rounds; None without profiles."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A configuration whose profiles have not been compiled: the plugins of users are not known yet."""

    configuration: DeschedulerProcessConfiguration
    name: str
    text: str

    def compile(self, plugins: Mapping[str, Plugin]) -> DeschedulerFile:
        """Return the configuration with its rounds; ``plugins``: those of users, by name.

        Raises click.ClickException, with the lines that are wrong.
        """
        with _errors_with_lines(self.text, name=self.name):
            return DeschedulerFile(self.configuration, compile_descheduling(self.configuration, plugins=plugins))


def load(path: Path | None) -> DeschedulerFile:
    """Return the configuration in a file, with built-in plugins alone; the defaults without a file.

    Raises click.ClickException, with the lines that are wrong.
    """
    return read(path).compile({})


def parse(text: str, *, name: str, plugins: Mapping[str, Plugin] | None = None) -> DeschedulerFile:
    """Return the configuration in a text; ``plugins``: those of users, by name.

    Raises click.ClickException, which starts with ``name``.
    """
    return _read(text, name=name).compile(plugins or {})


def read(path: Path | None, *, given: Mapping[str, Any] | None = None) -> ReadFile:
    """Return the configuration in a file, overridden by fields of the command line; the defaults without a file.

    Raises click.ClickException, with the lines that are wrong.
    """
    file = _read("", name="configuration") if path is None else _read(path.read_text(), name=f"configuration {path}")
    return replace(file, configuration=file.configuration.model_copy(update=dict(given or {})))


def _read(text: str, *, name: str) -> ReadFile:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise click.ClickException(f"{name}: not valid YAML: {error}{_repair_advice(text)}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise click.ClickException(f"{name}: must be a mapping")
    with _errors_with_lines(text, name=name) as lines:
        if "apiVersion" in content:
            lines.refuse_repetition()
        return ReadFile(read_configuration(content), name, text)


@contextmanager
def _errors_with_lines(text: str, *, name: str) -> Iterator["FieldLines"]:
    """Turn errors of a configuration into errors of the command line, each problem with its line."""
    lines = FieldLines(text)
    try:
        yield lines
    except MalformedDeschedulerConfigurationError as error:
        problems = "; ".join(_problem_text(problem, lines) for problem in error.problems)
        raise click.ClickException(f"{name}: {problems}{_proposal_text(error)}") from error


def _problem_text(problem: ConfigurationProblem, lines: "FieldLines") -> str:
    if not problem.path:
        return problem.message
    return f"{format_path(problem.path)}: {problem.message} (line {lines.line(problem.path)})"


def _proposal_text(error: MalformedDeschedulerConfigurationError) -> str:
    if error.proposal is None:
        return ""
    proposal = yaml.safe_dump(dict(error.proposal), sort_keys=False)
    return f"\nIn profiles (fields without a counterpart are left out; try it with --dry-run):\n\n{proposal}"


class FieldLines:
    """The lines of the fields of a document."""

    def __init__(self, text: str) -> None:
        """Read a document that is valid YAML."""
        self._root = yaml.compose(text, Loader=yaml.SafeLoader)

    def refuse_repetition(self) -> None:
        """Raise MalformedDeschedulerConfigurationError if an object has a field twice."""
        if problems := list(_repetition(self._root)):
            raise MalformedDeschedulerConfigurationError(problems)

    def line(self, path: FieldPath) -> int:
        """Return the line of a field, from 1 on; of a field that is missing, the line of the object that lacks it."""
        node, line = self._root, 1
        for part in path:
            child = _child(node, part)
            if child is None:
                break
            line, node = child
        return line


def _repetition(node: yaml.Node | None, path: FieldPath = ()) -> Iterator[ConfigurationProblem]:
    """Yield the fields that an object has twice, of which a parser takes the last without a word."""
    match node:
        case yaml.SequenceNode():
            for index, item in enumerate(node.value):
                yield from _repetition(item, (*path, index))
        case yaml.MappingNode():
            first: dict[str, int] = {}
            for key, value in node.value:
                if key.value in first:
                    text = f"is there already, in line {first[key.value]}; remove one of both"
                    yield ConfigurationProblem(path=(*path, key.value), message=text)
                first.setdefault(key.value, key.start_mark.line + 1)
                yield from _repetition(value, (*path, key.value))


def _child(node: yaml.Node | None, part: str | int) -> tuple[int, yaml.Node] | None:
    """Return the line and the value of an item or a field; None if there is none."""
    match node:
        case yaml.SequenceNode() if isinstance(part, int) and part < len(node.value):
            item: yaml.Node = node.value[part]
            return item.start_mark.line + 1, item
        case yaml.MappingNode():
            for key, value in reversed(node.value):  # the last one counts
                if key.value == part:
                    return key.start_mark.line + 1, value
    return None


def _repair_advice(text: str) -> str:
    repaired = repair_indentation(text)
    if repaired is None:
        return ""
    changes = difflib.unified_diff(text.splitlines(), repaired.splitlines(), "as given", "repaired", lineterm="", n=1)
    return "\nThe indentation of one block is wrong; with that block moved, the file is valid:\n\n" + "\n".join(changes)


def repair_indentation(text: str) -> str | None:
    """Return a text that is valid with one block of lines moved by a few columns; None if there is none."""
    for start, end in _blocks(text):
        for shift in sorted(range(-_MAX_SHIFT, _MAX_SHIFT + 1), key=abs):
            repaired = _shifted(text, start, end, by=shift)
            if repaired is not None and _is_valid(repaired):
                return repaired
    return None


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the blocks that may have to move, as ranges of lines: at the line of the error, and the ones around."""
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark is None:
            return
        lines = text.splitlines()
        for start in (mark.line, mark.line - 1, mark.line + 1):
            if not 0 <= start < len(lines) or not lines[start].strip():
                continue
            indent = _indent(lines[start])
            end = start + 1
            while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
                end += 1
            yield start, end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shifted(text: str, start: int, end: int, *, by: int) -> str | None:
    lines = text.splitlines()
    if by == 0 or any(line.strip() and _indent(line) + by < 0 for line in lines[start:end]):
        return None
    moved = [" " * (_indent(line) + by) + line.lstrip(" ") if line.strip() else line for line in lines[start:end]]
    return "\n".join([*lines[:start], *moved, *lines[end:]]) + "\n"


def _is_valid(text: str) -> bool:
    try:
        content = yaml.safe_load(text)
        if not isinstance(content, dict):
            return False
        compile_descheduling(read_configuration(content))
    except (yaml.YAMLError, MalformedDeschedulerConfigurationError):
        return False
    return True
