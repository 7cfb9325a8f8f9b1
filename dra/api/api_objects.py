"""Objects of our APIs from their plain content, or an error that names the object first."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dra.api.parameters.opaque import validation_message
from dra.model.meta import content_fault

ModelT = TypeVar("ModelT", bound=BaseModel)


def parse_object(model: type[ModelT], content: Mapping[str, Any], *, error_type: type[ValueError]) -> ModelT:
    """Return the object in the content of an API object; raise ``error_type``, which names it and each wrong field."""
    fault = content_fault(content)
    try:
        if not fault:
            return model.model_validate(content, by_alias=True, by_name=False)
    except ValidationError as error:
        raise error_type(f"{_subject(model, content)}: {validation_message(error, model, root='')}") from error
    raise error_type(f"{_subject(model, content)}: {fault}")


def _subject(model: type[BaseModel], content: Mapping[str, Any]) -> str:
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{model.__name__.lower()} {name or '?'}"
