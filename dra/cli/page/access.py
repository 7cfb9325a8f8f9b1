"""Decides by its headers whether a request is answered.

Loopback is no boundary: every site that the user's browser shows can send requests there, and to every other address
that the browser reaches. So a request must name our own host (against DNS rebinding), and must not come from another
site. On the user's machine, everything that says something about the cluster needs the secret of this process besides.
Only GET and HEAD exist.
"""

import hmac
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

SCHEME: Final = "Bearer "

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    text: str
    retry_after: int = 0
    """Seconds after which another attempt makes sense; 0: the response does not say."""


class RefusedError(Exception):
    """The request is not answered; ``refusal`` says why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The hosts that the page is reached under, and the secret of this process."""

    hosts: frozenset[str]
    secret: str

    def refusal(self, headers: Mapping[str, str], *, is_data: bool) -> Refusal | None:
        """Return why a request is refused; None if it is answered. ``is_data``: the answer is about the cluster."""
        if headers.get("Host", "").lower() not in self.hosts:
            return Refusal(421, "this address is not served; open the link that the command printed")
        refusal = site_refusal(headers, own_hosts=self.hosts, is_data=is_data)
        if refusal is not None or not is_data:
            return refusal
        given = headers.get("Authorization", "")
        if not given.startswith(SCHEME) or not hmac.compare_digest(
            given[len(SCHEME) :].encode(errors="surrogateescape"), self.secret.encode()
        ):
            return Refusal(401, "open the link that the command printed: it has the key of this session")
        return None


def site_refusal(headers: Mapping[str, str], *, own_hosts: AbstractSet[str], is_data: bool) -> Refusal | None:
    """Return why a request is refused for the site that it comes from; None if it is not.

    ``own_hosts``: the values of the Host header, in lower case, whose pages may send requests.
    """
    refusal = Refusal(403, "requests of other sites are not answered")
    origin = headers.get("Origin")
    if origin is not None and origin.partition("://")[2].lower() not in own_hosts:
        return refusal
    if not is_data:
        return None  # a navigation may come from anywhere; files of the page are public
    return None if headers.get("Sec-Fetch-Site", "same-origin") in {"same-origin", "none"} else refusal


def loopback_hosts(port: int) -> frozenset[str]:
    """Return the values of the Host header under which a browser on this machine reaches the port."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def known_views(text: str, *, all_views: AbstractSet[str]) -> frozenset[str] | None:
    """Return the views that a query names, separated by commas; None if it names an unknown one."""
    views = frozenset(filter(None, text.split(",")))
    return views if views and views <= all_views else None
