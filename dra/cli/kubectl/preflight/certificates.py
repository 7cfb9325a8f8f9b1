"""Checks when the certificates in the Secrets of our Deployments expire.

Only the certificates of a Secret are decoded, not its key. kube-scheduler's own certificate is on the nodes of the
control plane: the extender's metric shows its end.
"""

import binascii
from base64 import b64decode
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.snapshots.deployment_reader import NAME_SELECTOR
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client, Selection
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import DEPLOYMENTS, SECRETS
from dra.model.certificates import UnreadableCertificateError, expiry_times
from dra.model.meta import ObjectMeta, Struct, UnstructuredObject

CHECK: Final = "certificates"

CHECKED_KEYS: Final = {"tls.crt": min, "ca.crt": max}
"""Key of a Secret → which of its certificates decides: a chain ends with the first, of authorities one is enough."""

WARNED_DAYS: Final = 14
ENDS_DAYS: Final = 2


class _Secret(Struct, frozen=True):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


class CertificateEnd(Struct, frozen=True):
    """The end of one certificate file of a Secret."""

    name: str
    """``Secret NAME -n NAMESPACE, KEY``."""

    end: datetime | None
    """None if the file contains no certificate that could be read."""


class SecretsUnreadableError(Exception):
    """A Secret may not be read; the text says which."""


async def find_ends(client: Client) -> list[CertificateEnd]:
    """Return the ends of all certificates of the installation; raise ApiError, SecretsUnreadableError."""
    try:
        pages = client.list_pages(DEPLOYMENTS, UnstructuredObject, selection=Selection(labels=NAME_SELECTOR))
        named = {name: None async for page in pages for deployment in page.items for name in _secret_names(deployment)}
        return [end for key in named for end in await _ends_of(client, key)]
    except Forbidden as error:
        raise SecretsUnreadableError(str(error)) from error


def _secret_names(deployment: UnstructuredObject) -> Iterable[tuple[str, str]]:
    spec: dict[str, Any] = deployment.content["spec"]["template"]["spec"]
    for volume in spec.get("volumes", ()):
        if name := (volume.get("secret") or {}).get("secretName"):
            yield deployment.metadata.namespace, name


async def _ends_of(client: Client, key: tuple[str, str]) -> list[CertificateEnd]:
    try:
        secret = await client.get(SECRETS, key, _Secret)
    except NotFound:
        return [CertificateEnd(name=f"Secret {key[1]} -n {key[0]}", end=None)]
    data = secret.data or {}
    return [
        CertificateEnd(name=f"Secret {key[1]} -n {key[0]}, {field}", end=_end(data[field], decides=decides))
        for field, decides in CHECKED_KEYS.items()
        if field in data
    ]


def _end(encoded: str, *, decides: Any) -> datetime | None:  # noqa: ANN401 - min or max
    try:
        times = expiry_times(b64decode(encoded))
    except (binascii.Error, UnreadableCertificateError):
        return None
    return decides(times) if times else None


def judge_ends(ends: Iterable[CertificateEnd], *, now: datetime) -> CheckResult:
    """Judge the certificates by the one that expires first."""
    ends = list(ends)
    if not ends:
        return CheckResult(check=CHECK, state=CheckState.OK, detail="none in use (the default)")
    unread = [certificate.name for certificate in ends if certificate.end is None]
    if unread:
        return CheckResult(
            check=CHECK,
            state=CheckState.MISSING,
            detail=f"{unread[0]}: missing, or contains no certificate",
            remedy=_RENEW,
        )
    first = min(
        (certificate for certificate in ends if certificate.end is not None),
        key=lambda certificate: certificate.end or now,
    )
    assert first.end is not None  # noqa: S101 - those without an end were reported
    days = (first.end - now).total_seconds() / 86_400
    says = f"expires in {days:.0f} days" if days > 0 else "has expired"
    detail = f"{first.name}: {says}, on {first.end:%Y-%m-%d %H:%M} UTC"
    if days > WARNED_DAYS:
        return CheckResult(check=CHECK, state=CheckState.OK, detail=detail)
    state = CheckState.MISSING if days <= ENDS_DAYS else CheckState.WARNING
    return CheckResult(check=CHECK, state=state, detail=detail, remedy=_RENEW)


_RENEW: Final = WeighedChoice(
    "renew it, no restart is needed; without a valid certificate of the extender no pod is scheduled. Section "
    "Renew the certificates of " + page_url("how-to/scheduler-extender.md") + " has the commands"
)
