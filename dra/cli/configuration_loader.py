"""Loads configuration files and reports what is wrong with them."""

from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)


def load_configuration(path: Path | None, model: type[T], **given: Any) -> T:  # noqa: ANN401 - any field of the model
    """Return the configuration of a file, overridden by values of the command line; raise click.ClickException."""
    try:
        content = yaml.safe_load(path.read_text()) if path is not None else None
    except yaml.YAMLError as error:
        raise click.ClickException(f"configuration {path}: no YAML: {error}") from error
    if content is not None and not isinstance(content, dict):
        raise click.ClickException(f"configuration {path}: must be a mapping")
    try:
        return model.model_validate({**(content or {}), **given})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise click.ClickException(f"configuration {path or ''}: {problems}") from error
