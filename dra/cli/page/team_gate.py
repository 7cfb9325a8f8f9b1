"""The gate of the page in a cluster: a token says who the user is, reviews say what the user sees.

The token comes in the header ``Authorization``, never in the address and never in a cookie, so that no other site can
send it. A review that fails refuses the request: 503, and nothing is shown.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from dra.cli.page.access import HEADERS, SCHEME, Refusal, RefusedError, site_refusal
from dra.cli.page.metrics import PageMetrics
from dra.cli.page.scoped_feeds import ScopedFeed, ScopedFeeds
from dra.cli.page.scopes import Scope
from dra.cli.page.sessions import PageSession
from dra.cli.page.shared_cluster import SharedCluster
from dra.cli.page.token_reviews import TokenReviewer, User
from dra.cli.page.user_rights import RightsReviewer
from dra.kube.errors import ApiError
from dra.kube.resources import NAMESPACES, PODS, InvalidNameError

STREAMS_MAX: Final = 64
"""Maximum number of open streams."""

USER_STREAMS_MAX: Final = 6
"""Maximum number of open streams of one user; browsers open no more than six connections to one server."""

NAMESPACE_STREAMS_MAX: Final = 16
"""Maximum number of open streams of users who are limited to one namespace, of all of them together: the administrator
of a namespace can make any number of accounts there."""

KEPT_SHARE: Final = 8
"""Part of all streams, one in so many, that only users with rights in all namespaces can open."""

USER_REQUESTS_MAX: Final = 64
"""Maximum number of requests of one user whose rights are reviewed at the same time."""

REQUESTS_MAX: Final = 256
"""Maximum number of requests of all users whose rights are reviewed at the same time."""

FIRST_REVIEWS_MAX: Final = 64
"""Maximum number of requests whose token is reviewed for the first time. Anybody can send tokens, and each request that
waits keeps a connection busy."""

ADDRESS_FIRST_REVIEWS_MAX: Final = 32
"""Maximum number of such requests of one address."""

HSTS: Final = {"Strict-Transport-Security": "max-age=31536000"}
"""Header of responses over TLS: browsers then never send a token without TLS to this host."""

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names that are always answered, for ``kubectl port-forward``, whose port the user selects."""

VIEW_OF_KIND: Final = {
    "node": "nodes",
    "device": "devices",
    "reservation": "reservations",
    "migration": "migrations",
    "pod": "pods",
}
"""Kind of an object → view without which the object is not shown."""

_log: Final = logging.getLogger(__name__)


class TeamSession(PageSession):
    """A user of the page with the scope of the user."""

    def __init__(self, gate: "TeamGate", *, token: str, namespace: str, user: User, scoped: ScopedFeed) -> None:
        super().__init__(scoped.feed)
        self._gate = gate
        self._token = token
        self._namespace = namespace
        self._user = user
        self._scoped = scoped

    @property
    def description(self) -> dict[str, str]:
        """The name of the user, and the namespace that the user is limited to."""
        return {"user": self._user.name, "namespace": self._scoped.scope.namespace or ""}

    def view_refusal(self, view: str) -> Refusal | None:
        """Return which permission the user lacks for a view."""
        why = self._scoped.hidden.get(view)
        return Refusal(403, why) if why is not None else None

    def object_refusal(self, kind: str, namespace: str) -> Refusal | None:
        """Return which permission the user lacks for objects of a kind."""
        allowed = self._scoped.scope.namespace
        if kind in {"claim", "pod", "workload"} and allowed is not None and namespace != allowed:
            return Refusal(403, f"only namespace {allowed} is shown: no permission for all namespaces")
        return self.view_refusal(VIEW_OF_KIND[kind]) if kind in VIEW_OF_KIND else None

    async def namespaces(self) -> frozenset[str] | None:
        """Return the namespaces whose claims the user may list and watch; None: all."""
        namespace = self._scoped.scope.namespace
        return None if namespace is None else frozenset({namespace})

    @contextmanager
    def open_stream(self) -> Iterator[None]:
        """Count an open stream; raise RefusedError if the user, or all together, have too many."""
        with self._gate.counted_stream(self._user, self._scoped.scope):
            self._scoped.streams += 1
            try:
                yield
            finally:
                self._scoped.streams -= 1

    async def is_current(self) -> bool:
        """Report whether the token is still valid and the user's scope is the same; raise RefusedError."""
        user, scope = await self._gate.identify(self._token, self._namespace)
        return user == self._user and scope == self._scoped.scope


class TeamGate:
    """Decides what the users of a cluster see."""

    def __init__(  # noqa: PLR0913 - keyword-only, the parts of the application
        self,
        *,
        cluster: SharedCluster,
        feeds: ScopedFeeds,
        tokens: TokenReviewer,
        rights: RightsReviewer,
        metrics: PageMetrics,
        allowed_hosts: tuple[str, ...] = (),
        is_secure: bool = False,
    ) -> None:
        """Create the gate; ``is_secure``: browsers connect over TLS."""
        self._cluster = cluster
        self._feeds = feeds
        self._tokens = tokens
        self._rights = rights
        self._metrics = metrics
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in allowed_hosts}
        self._streams: Counter[str] = Counter()
        """Open streams by name of the user."""

        self._namespace_streams: Counter[str] = Counter()
        """Open streams of users who are limited to one namespace, by namespace."""

        self._reviewed: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        """Requests whose token is reviewed for the first time, by address."""

        self._headers = {**HEADERS, **HSTS} if is_secure else HEADERS

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every response."""
        return self._headers

    def refusal(self, headers: Mapping[str, str], *, is_data: bool) -> Refusal | None:
        """Return why a request is refused by its host or by the site that it comes from."""
        host = headers.get("Host", "").lower()
        if host not in self._hosts and _without_port(host) not in self._hosts:
            return Refusal(421, "this host name is not served; see allowedHosts of the configuration of the page")
        return site_refusal(headers, own_hosts=frozenset({host}), is_data=is_data)

    async def admit(self, request: web.Request) -> TeamSession:
        """Return the session of a user; raise RefusedError."""
        header, namespace = request.headers.get("Authorization", ""), request.query.get("ns", "")
        token = header.removeprefix(SCHEME) if header.startswith(SCHEME) else ""
        user, scope = await self.identify(token, namespace, address=request.remote or "")
        if not self._cluster.is_filled:
            raise RefusedError(Refusal(503, "the page is still reading the cluster", retry_after=2))
        return TeamSession(self, token=token, namespace=namespace, user=user, scoped=self._feeds.get(scope))

    async def identify(self, token: str, namespace: str, *, address: str = "") -> tuple[User, Scope]:
        """Return the user of a token and the user's scope; raise RefusedError: 401, 403, and 503 if a review fails."""
        try:
            PODS.path(namespace or None)
        except InvalidNameError as error:
            raise RefusedError(Refusal(400, f"{NAMESPACES.kind}: not the name of a namespace")) from error
        try:
            with self._counted_token(token, address):
                user = await self._tokens.user_of(token)
            if user is None:
                raise RefusedError(Refusal(401, "the token is not valid for this page, or has expired"))
            with self._counted_review(user):
                scope = await self._rights.scope_of(user, namespace)
        except ApiError as error:
            text = str(error).replace(token, "TOKEN") if token else str(error)  # a server may quote what it refuses
            _log.warning("a review failed, so the request is refused: %s", text)
            raise RefusedError(Refusal(503, "your rights cannot be reviewed now", retry_after=5)) from error
        if isinstance(scope, Refusal):
            _log.info("refused: %s", scope.text)
            raise RefusedError(scope)
        return user, scope

    @contextmanager
    def _counted_token(self, token: str, address: str) -> Iterator[None]:
        """Count a request with a token that is not known to be valid; raise RefusedError if there are too many."""
        if self._tokens.is_known(token):
            yield
            return
        if self._unknown.total() >= FIRST_REVIEWS_MAX or self._unknown[address] >= ADDRESS_FIRST_REVIEWS_MAX:
            raise RefusedError(Refusal(503, "too many users sign in at once", retry_after=2))
        self._unknown[address] += 1
        try:
            yield
        finally:
            self._unknown -= Counter([address])  # also drops counts of 0

    @contextmanager
    def _counted_review(self, user: User) -> Iterator[None]:
        """Count a request of a user while rights are reviewed; raise RefusedError if there are too many."""
        if self._reviewed[user.name] >= USER_REQUESTS_MAX or self._reviewed.total() >= REQUESTS_MAX:
            raise RefusedError(Refusal(503, "too many requests at once", retry_after=2))
        self._reviewed[user.name] += 1
        try:
            yield
        finally:
            self._reviewed[user.name] -= 1
            if not self._reviewed[user.name]:
                del self._reviewed[user.name]

    @contextmanager
    def counted_stream(self, user: User, scope: Scope) -> Iterator[None]:
        """Count a stream of a user; raise RefusedError if there are too many."""
        if text := self._stream_refusal(user, scope):
            raise RefusedError(Refusal(503, text, retry_after=30))
        self._streams[user.name] += 1
        self._namespace_streams.update([scope.namespace] if scope.namespace is not None else [])
        self._metrics.streams.inc()
        try:
            yield
        finally:
            if scope.namespace is not None:
                self._namespace_streams -= Counter([scope.namespace])  # also drops counts of 0
            self._streams[user.name] -= 1
            if not self._streams[user.name]:
                del self._streams[user.name]
            self._metrics.streams.dec()

    def _stream_refusal(self, user: User, scope: Scope) -> str:
        """Return why a user cannot open another stream; empty if the user can."""
        total, namespace = self._streams.total(), scope.namespace
        if total >= STREAMS_MAX or self._streams[user.name] >= USER_STREAMS_MAX:
            return "too many open tabs; close some"
        if namespace is not None and self._namespace_streams[namespace] >= NAMESPACE_STREAMS_MAX:
            return f"namespace {namespace}: its users have too many open tabs; close some"
        if namespace is not None and self._namespace_streams.total() >= STREAMS_MAX - STREAMS_MAX // KEPT_SHARE:
            return "too many open tabs of users with rights in one namespace; try again later"
        return ""


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host
