"""The configuration file of ``dra-reserve page``."""

from typing import Annotated

from pydantic import Field, field_validator

from dra.api.configuration import ConfigurationSection, Endpoint, Logging


class PageTlsFiles(ConfigurationSection):
    """The PEM files for TLS, which are re-read when they change."""

    certificate: str
    key: str


class PagePrometheus(ConfigurationSection):
    """The Prometheus that scrapes the controller, and knows the use of devices over time."""

    url: str
    """Address such as `http://prometheus.monitoring:9090`, without credentials: who may read this file would read
    them, too."""

    labels: dict[str, str] = {}
    """Labels of this cluster's series, where the Prometheus has several clusters."""

    ca: str | None = None
    """PEM file with the CA of an `https://` address, which is re-read when it changes; null: the system's CAs."""

    token_file: str | None = None
    """File with a bearer token, which is re-read for each query, and sent over `https://` alone."""

    @field_validator("url")
    @classmethod
    def _has_no_credentials(cls, url: str) -> str:
        if "@" in url:
            raise ValueError("credentials do not belong here: put a bearer token into a file, and name it as tokenFile")
        return url


class PageConfiguration(ConfigurationSection):
    """The configuration of the page; all fields have defaults."""

    serve: Endpoint = Endpoint(port=8080)
    """Address and port for browsers."""

    tls: PageTlsFiles | None = None
    """Null: plain HTTP, for `kubectl port-forward` and behind an Ingress that ends TLS. Tokens of users pass through
    the connection: never serve plain HTTP to other machines without TLS in front of it."""

    audience: Annotated[str, Field(min_length=1)] = "dra-reserve-page"
    """Audience that a user's token must have, as in `kubectl create token ACCOUNT --audience=dra-reserve-page`. Tokens
    for the API server itself are refused, so that a user does not hand out more than needed."""

    allowed_hosts: tuple[str, ...] = ()
    """Host names under which browsers reach the page, such as that of the Ingress; without a port, every port is
    allowed. Requests under other names are refused; `localhost`, `127.0.0.1` and `[::1]` are always allowed."""

    prometheus: PagePrometheus | None = None
    """The history of the view Idle: `url` of the Prometheus that scrapes the controller, `ca` and `tokenFile` if it
    wants TLS and a token, and `labels` of this cluster's series if it has several clusters. Null: what this process has
    seen since its start."""

    lease_namespace: str = "dra-reserve"
    """Namespace of the Leases of controller and descheduler."""

    max_scopes: Annotated[int, Field(ge=1)] = 16
    """Maximum number of different sets of rights whose rows are kept in memory at once. If more users with other rights
    come, the set that nobody has looked at for longest is dropped; if all are looked at, the response is 503. Rights in
    all namespaces take 30 MiB at 1,000 nodes and 10,000 pods, 100 MiB at 5,000 nodes and 50,000 pods; rights in one
    namespace take less."""

    qps: Annotated[float, Field(gt=0)] = 50.0
    """Maximum API requests per second, on average. A user needs about 30 for the reviews of 30 seconds."""

    burst: Annotated[int, Field(ge=1)] = 100
    """Maximum API requests at once."""

    probes: Endpoint | None = Endpoint(port=8081)
    metrics: Endpoint | None = Endpoint(port=8082)
    """Null: metrics are not served."""

    logging: Logging = Logging()
