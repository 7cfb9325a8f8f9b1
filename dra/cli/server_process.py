"""Starts and stops the processes of the cluster side.

A configuration file is loaded and checked first. On SIGTERM and SIGINT a process stops in order; where it must not
continue, it stops with an error.
"""

import asyncio
import contextlib
import gc
import signal
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from dra.kube.leader_election import LeadershipLostError
from dra.kube.store import ServerRestoredError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

T = TypeVar("T", bound="BaseModel")


def load_configuration(path: Path | None, model: type[T], **given: Any) -> T:  # noqa: ANN401 - any field of the model
    """Return the configuration of a file, overridden by values of the command line; raise click.ClickException."""
    text = path.read_text() if path is not None else ""
    return parse_configuration(text, model, name=f"configuration {path or ''}", **given)


def parse_configuration(text: str, model: type[T], *, name: str, **given: Any) -> T:  # noqa: ANN401 - likewise
    """Return the configuration in a text, overridden by the given values; raise click.ClickException, with the name."""
    import yaml  # noqa: PLC0415 - the kubelet plugin has no such file, and saves 14 MiB on each node
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise click.ClickException(f"{name}: not valid YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise click.ClickException(f"{name}: must be a mapping")
    try:
        return model.model_validate({**(content or {}), **given})
    except ValidationError as error:
        problems = "; ".join(_problem_text(problem, model) for problem in error.errors(include_url=False))
        raise click.ClickException(f"{name}: {problems}") from error


def _problem_text(problem: "ErrorDetails", model: "type[BaseModel]") -> str:
    from dra.api.unknown_fields import UNKNOWN_FIELD, unknown_field_text  # noqa: PLC0415 - as above

    where = problem["loc"]
    is_unknown = problem["type"] == UNKNOWN_FIELD
    text = unknown_field_text(model, where) if is_unknown else problem["msg"].removeprefix("Value error, ")
    return ": ".join(filter(None, (".".join(map(str, where)), text)))


FATAL_ERRORS: Final = (LeadershipLostError, ServerRestoredError)
"""Errors after which a controller must not continue: a lost lease, an API server restored from a backup."""


STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""Signals that stop a process of the cluster side."""

TERMINAL_STOP_SIGNALS: Final = (*STOP_SIGNALS, signal.SIGHUP)
"""Signals that stop a process that belongs to a terminal."""


def cancel_on_signals(task: asyncio.Future[Any], signals: Iterable[signal.Signals]) -> None:
    """Cancel a task of the running loop when one of the signals arrives."""
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def run_until_stopped(
    work: Coroutine[Any, Any, None],
    *,
    fatal: tuple[type[BaseException], ...] = FATAL_ERRORS,
    first_lists: Coroutine[Any, Any, object] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, then stop cleanly; raise click.ClickException after a fatal error.

    After ``first_lists`` the garbage collector looks at new objects only: a look at a hundred thousand pods would hold
    up the event loop for some tenths of a second, again and again.
    """
    running = asyncio.ensure_future(work)
    cancel_on_signals(running, STOP_SIGNALS)
    freezing = asyncio.ensure_future(freeze_after(first_lists)) if first_lists is not None else None
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await running
        except* fatal as failures:
            raise click.ClickException(error_text(failures)) from None
        finally:
            if freezing is not None:
                freezing.cancel()


async def freeze_after(lists: Coroutine[Any, Any, object]) -> None:
    """Have the garbage collector spare what is there once the lists are read."""
    await lists
    gc.freeze()


def innermost_error(failure: BaseException) -> BaseException:
    """Return the innermost failure, because task groups nest."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


def error_text(failure: BaseException) -> str:
    """Return the text of the innermost failure; an OSError's text begins with its file."""
    error = innermost_error(failure)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
