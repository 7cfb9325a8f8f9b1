"""The configuration file of ``dra-reserve colocation-profiles``."""

from typing import Annotated

from pydantic import Field

from dra.api.configuration import ConfigurationSection, Endpoint, LeaderElection, Logging


class ProfilesLeaderElection(LeaderElection):
    """The Lease that keeps two replicas from acting at the same time."""

    name: str = "dra-reserve-profiles"


class ProfilesConfiguration(ConfigurationSection):
    """The configuration of the process that applies profiles; all fields have defaults."""

    qps: Annotated[float, Field(gt=0)] = 20.0
    """Maximum API requests per second, on average."""

    burst: Annotated[int, Field(ge=1)] = 40
    """Maximum API requests at once."""

    leader_election: ProfilesLeaderElection = ProfilesLeaderElection()
    probes: Endpoint | None = Endpoint(port=8087)
    metrics: Endpoint | None = Endpoint(port=8086)
    """Null: metrics are not served."""

    logging: Logging = Logging()
