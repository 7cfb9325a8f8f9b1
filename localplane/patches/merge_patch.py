"""Applies JSON merge patches (RFC 7386)."""

from typing import Any

from dra.model.merge_patches import merged
from localplane import status_errors
from localplane.objects import Mutation, Object
from localplane.schemas.go_decoder import json_type_name


def mutation(patch: Object) -> Mutation:
    """Return the mutation of a patch."""
    return lambda target: merged(target, patch)


def check_merge_patch(body: Any) -> Object:  # noqa: ANN401 - JSON
    """Return a patch that is an object; raises `StatusError` 400 for any other value."""
    if not isinstance(body, dict):
        what = f"json: cannot unmarshal {json_type_name(body)} into Go value of type map[string]interface {{}}"
        raise status_errors.bad_request(f"error decoding patch: {what}")
    return body
