"""Authorization of clients by the names in their certificates: their authority may sign certificates of others, too.

With the cluster's own authority, every kubelet and every user with a certificate would otherwise be allowed to bind
pods. kube-apiserver has the same setting, ``--requestheader-allowed-names``.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

from aiohttp import web

LOGGED_CLIENTS_MAX: Final = 32
"""Maximum number of names in the log: each refused name is logged once, up to this number."""

_log: Final = logging.getLogger(__name__)


class AllowedClientNames:
    """A middleware that admits clients whose certificate has one of the `names`."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._logged: set[str] = set()

    @web.middleware
    async def authorize(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer 403 to other clients, before reading the body of their call."""
        shown = certificate_names(request.get_extra_info("peercert"))
        if self._names & shown:
            return await handler(request)
        called = ", ".join(sorted(shown)) or "no name"
        text = (
            f"the client certificate has the name {called}, and only {', '.join(sorted(self._names))} may call; "
            "add the name to tls.clientNames of the extender, or have a certificate made with the name"
        )
        if called not in self._logged and len(self._logged) < LOGGED_CLIENTS_MAX:
            self._logged.add(called)
            _log.warning("client %s: %s", request.remote, text)
        raise web.HTTPForbidden(text=text)


def certificate_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the common name and the DNS names of a certificate in the form of `ssl.SSLSocket.getpeercert`."""
    if not certificate:
        return frozenset()
    common = (value for part in certificate.get("subject", ()) for key, value in part if key == "commonName")
    alternatives = (value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")
    return frozenset((*common, *alternatives))
