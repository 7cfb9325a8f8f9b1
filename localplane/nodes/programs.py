"""The behaviour of a container on an emulated node: its run time and exit code, parsed from its command.

Nothing is executed. Annotations of the pod take precedence. Otherwise the command decides, as far as it can be parsed
(``sleep``, ``exit``, ``true``, ``false``, ``echo``, ``grep``, also joined by ``;``, ``&&`` and ``|`` inside ``sh -c``).
Any other command is a server that runs for ever under restartPolicy Always, and otherwise a short run that succeeds.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from localplane.nodes.pod_types import Container

RUN_SECONDS: Final = "local.reserve.dra/run-seconds"
"""Annotation: seconds that each container of the pod runs (``"for-ever"``: until it is stopped)."""

EXIT_CODE: Final = "local.reserve.dra/exit-code"
"""Annotation: exit code of each container of the pod."""

STOP_SECONDS: Final = "local.reserve.dra/stop-seconds"
"""Annotation: seconds that a container takes to end after SIGTERM; after the grace period it is killed."""

DEFAULT_RUN_SECONDS: Final = 1.0
"""Seconds that a program runs whose command cannot be parsed and whose restartPolicy is not Always."""

SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_INSTANT: Final = frozenset(
    {":", "true", "echo", "printf", "env", "grep", "cat", "ls", "date", "hostname", "set", "export", "trap", "cd"}
)


@dataclass(frozen=True, slots=True)
class Program:
    """The behaviour of a container: seconds until it ends by itself (None: never), and its exit code then."""

    seconds: float | None
    exit_code: int = 0


def program(container: Container, annotations: Mapping[str, str] | None, *, restart_policy: str) -> Program:
    """Return the behaviour of a container."""
    annotations = annotations or {}
    unknown = Program(None if restart_policy == "Always" else DEFAULT_RUN_SECONDS)
    read = _parse_argv([*(container.command or ()), *(container.args or ())]) or unknown
    seconds, code = annotations.get(RUN_SECONDS), annotations.get(EXIT_CODE)
    return Program(
        read.seconds if seconds is None else _parse_number(seconds, default=None),
        read.exit_code if code is None else int(_parse_number(code, default=0.0) or 0),
    )


def stop_seconds(annotations: Mapping[str, str] | None) -> float:
    """Return the seconds that containers take to end after SIGTERM."""
    return _parse_number((annotations or {}).get(STOP_SECONDS, "0"), default=0.0) or 0.0


def _parse_argv(words: Sequence[str]) -> Program | None:
    """Return the behaviour of a command; None if it cannot be parsed."""
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    if name in SHELLS:
        script = next((word for word in words[1:] if not word.startswith("-")), None)
        return None if script is None else _parse_script(script)
    return _parse_command([name, *words[1:]])


def _parse_script(text: str) -> Program | None:
    """Return the behaviour of a small script: commands in sequence; ``&&`` stops at the first that fails."""
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return None
    total, code, skip, command = 0.0, 0, False, list[str]()
    for word in [*words, ";"]:
        if word not in (";", "&&"):
            command.append(word)
            continue
        if command and not skip:
            done = _parse_command(command)
            if done is None or done.seconds is None:
                return done
            total, code = total + done.seconds, done.exit_code
            if command[0] == "exit":
                break
        skip = word == "&&" and (skip or code != 0)
        command = []
    return Program(total, code)


def _parse_command(words: Sequence[str]) -> Program | None:
    """Return the behaviour of a command, or of a pipe of commands that take no time; None if it cannot be parsed."""
    if "|" in words:
        at = words.index("|")
        parts = (_parse_command(words[:at]), _parse_command(words[at + 1 :]))
        return parts[1] if all(part is not None and part.seconds == 0 for part in parts) else None
    match words:
        case ["sleep", duration]:
            return _parse_sleep(duration)
        case ["exit", *code]:
            return Program(0.0, int(_parse_number(code[0], default=2.0) or 0) % 256 if code else 0)
        case ["false", *_]:
            return Program(0.0, 1)
        case [name, *rest] if name in _INSTANT and not {">", "<", "|", "&", "("}.intersection(rest):
            return Program(0.0)
        case _:
            return None


def _parse_sleep(duration: str) -> Program | None:
    if duration == "infinity":
        return Program(None)
    seconds = _parse_number(duration.rstrip("smhd"), default=None)
    return None if seconds is None else Program(seconds * _UNITS.get(duration[-1], 1.0))


def _parse_number(text: str, *, default: float | None) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return default
    return value if 0.0 <= value < float("inf") else default
