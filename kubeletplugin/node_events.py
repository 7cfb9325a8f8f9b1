"""Events on the own Node about what impairs a driver: ``kubectl describe node`` shows them, whoever runs the plugin."""

from typing import Final, NoReturn

from dra.engine.impairments import Impairment
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.events import Recorder
from dra.kube.resources import NODES
from dra.kube.series import Fact, Regarding, Severity
from dra.model.meta import Uid

CONTROLLER: Final = "reserve.dra/kubelet-plugin"
ACTION: Final = "Serve"


class NodeEvents:
    """Posts Events about one Node; `run` until cancelled."""

    def __init__(self, client: Client, *, node: str, clock: Clock = SYSTEM) -> None:
        self._recorder = Recorder(client, instance=node, controller=CONTROLLER, clock=clock)
        # The name in place of the uid, as in the kubelet's own Events; kubectl describe finds both.
        self._regarding = Regarding(
            api_version=NODES.api_version, kind=NODES.kind, namespace="", name=node, uid=Uid(node)
        )

    def tell(self, reason: Impairment, text: str) -> None:
        """Post a Warning; best effort, never waits."""
        fact = Fact(
            regarding=self._regarding,
            severity=Severity.WARNING,
            reason=reason.value,
            action=ACTION,
            note=f"node {self._regarding.name}: {text}",
        )
        self._recorder.record(fact)

    async def run(self) -> NoReturn:
        """Post what is told."""
        await self._recorder.run()
