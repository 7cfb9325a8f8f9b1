"""Refusals: the field of a pod, and why the pod cannot be translated."""

from dra.model.meta import Struct


class Refusal(Struct, frozen=True):
    """A refused field: path from the root of the object, and a text that says what to do."""

    path: str
    text: str

    def __str__(self) -> str:
        """Return the path and the text as the API server prints an invalid field."""
        return f"{self.path}: {self.text}"
