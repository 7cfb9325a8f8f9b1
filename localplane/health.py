"""Answers ``/healthz``, ``/livez`` and ``/readyz``, each with ``?verbose``, which also lists the rules not enforced.

Nothing is faked silently: a change that leaves out a rule of the real server adds a line to `NOT_ENFORCED`.
"""

from collections.abc import Iterable
from typing import Final

from dra.kube.transport import Request, Response
from localplane import status_errors

HEALTH_PATHS: Final = ("healthz", "livez", "readyz")

NOT_ENFORCED: Final = (
    "authorization: whoever has the token may do everything",
    "admission webhooks and admission policies",
    "API priority and fairness",
    "answers in protobuf (JSON instead), bodies of custom kinds in protobuf (415)",
    "bodies nested deeper than 200 levels (400), YAML with anchors (400)",
    "field ownership before the first server-side apply: all of it belongs to before-first-apply",
    "texts of OpenAPI are those of the installed kubernetes package; v2 is made of v3, bodies of requests left out",
    "custom resources: conversion by webhook (refused), the cost budget of CEL rules",
    "CEL: authorizer, format.named, macros of two variables (refused as malformed)",
)
"""Rules of kube-apiserver that this server does not enforce."""


def respond(request: Request, not_enforced: Iterable[str]) -> Response | None:
    """Return the response to a health check, None for any other path."""
    match request.path.strip("/").split("/"):
        case [name] if name in HEALTH_PATHS:
            pass
        case _:
            return None
    if request.method not in ("GET", "HEAD"):
        raise status_errors.method_not_allowed()
    if "verbose" not in request.query:
        return plain_text(200, "ok")
    lines = ["[+]ping ok", "[+]etcd ok", *(f"[ ]not enforced: {feature}" for feature in not_enforced)]
    return plain_text(200, "\n".join((*lines, f"{name} check passed", "")))


def plain_text(status: int, text: str) -> Response:
    """Return a response in plain text."""
    headers = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
    return Response(status, headers, text.encode())
