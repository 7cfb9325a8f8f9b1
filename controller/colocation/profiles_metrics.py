"""The Prometheus metrics of ``dra-reserve colocation-profiles``."""

from controller.leader_metrics import LeaderMetrics


class ProfilesMetrics(LeaderMetrics):
    """All metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        super().__init__(leading="dra_reserve_profiles_leading", acts="writes the parameters of the admission policy")
