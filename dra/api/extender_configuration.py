"""The configuration file of ``dra-reserve scheduler-extender``."""

from typing import Annotated

from pydantic import Field

from dra.api.configuration import ConfigurationSection, Endpoint, LeaderElection, Logging


class TlsFiles(ConfigurationSection):
    """PEM files; read again when they change."""

    certificate: str
    key: str
    client_authority: str = ""
    """Who signs the scheduler's client certificate; without it anybody who reaches us may ask and bind."""

    client_names: tuple[str, ...] = ("kube-scheduler",)
    """Common names or DNS names, one of which the client certificate must have: others that the same authority has
    signed may not ask or bind. An empty list lets in every certificate of the authority."""


class ExtenderLeaderElection(LeaderElection):
    """The Lease that keeps two replicas from binding at once."""

    name: str = "dra-reserve-extender"


class ExtenderConfiguration(ConfigurationSection):
    """Everything that can be set."""

    serve: Endpoint = Endpoint(port=8888)
    """Where kube-scheduler asks: the urlPrefix of its file."""

    tls: TlsFiles | None = None
    """Null: plain HTTP, for a scheduler on the same machine."""

    bind_seconds: Annotated[float, Field(gt=0, le=8)] = 4.0
    """How long a bind may take; less than the httpTimeout of the scheduler's file, which must not give up before us."""

    spread_reservations: bool = True
    """Whether Reservations go to the emptiest nodes, by cpu and memory. False, where kube-scheduler packs pods
    (MostAllocated): then its scores alone decide, which do not see what Reservations hold."""

    decisive_lead: Annotated[int, Field(ge=1, le=10)] | None = 2
    """By how many of the 10 points of prioritize the best node must lead so that no score of kube-scheduler's own makes
    up for it: ``filter`` then leaves out the nodes behind, and kube-scheduler neither scores them nor asks for their
    points. This number × ``weight`` of the extender in the scheduler's file must be more than 10 × the weights of all
    score plugins, which are 15 by default. Null: ``filter`` leaves out only nodes that do not fit, for a smaller
    ``weight`` or where an extender behind this one filters, too."""

    qps: Annotated[float, Field(gt=0)] = 500.0
    """API requests per second: one for each pod, two for those that enter a reservation …"""

    burst: Annotated[int, Field(ge=1)] = 1000
    """… and how many may come at once."""

    leader_election: ExtenderLeaderElection = ExtenderLeaderElection()
    probes: Endpoint | None = Endpoint(port=8083)
    metrics: Endpoint | None = Endpoint(port=8082)
    """Null: not served."""

    logging: Logging = Logging()
