"""Checks the configuration of colocation: the kind NodeMetric, and the ConfigMap with the strategies of nodes.

What the kernels of nodes can do is a check of its own.
"""

from collections.abc import Iterator
from typing import Final

from dra.api.colocation.node_strategy import node_strategy
from dra.api.colocation.slo_configuration import OFF, SloConfiguration, read_slo_configuration
from dra.api.colocation.well_known import CONFIG_MAP
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.engine.messages.remedies import WeighedChoice
from dra.kube.client import Client
from dra.kube.discovery import Discovery
from dra.kube.errors import Forbidden, NotFound
from dra.kube.resources import CONFIG_MAPS, NODE_METRICS, NODES
from dra.model.meta import PartialObjectMetadata, Struct
from dra.model.node_pods import ConfigMap
from dra.model.references import GroupResource

CHECK: Final = "colocation"

CONFIG_MAP_TEXT: Final = f"ConfigMap {'/'.join(CONFIG_MAP)}"

PRINTED_MAX: Final = 5
"""Errors of the ConfigMap that are printed; `kubectl dra audit` prints all."""


class ColocationInstallation(Struct, frozen=True):
    """The parts of colocation in a cluster, as far as they could be read."""

    is_served: bool = False
    """Whether the API server serves NodeMetrics."""

    is_configured: bool = False
    """Whether the ConfigMap exists."""

    configuration: SloConfiguration = OFF
    nodes: int = 0
    enabled_nodes: int = 0
    unread: str = ""
    """Error of a read that was refused; empty if all could be read."""


async def check_colocation(client: Client, discovery: Discovery) -> CheckResult:
    """Judge the configuration of colocation; raise ApiError if the API server cannot be asked."""
    return judge_installation(await find_installation(client, discovery))


async def find_installation(client: Client, discovery: Discovery) -> ColocationInstallation:
    """Read which parts exist; raise ApiError."""
    kind = GroupResource(resource=NODE_METRICS.plural, group=NODE_METRICS.group)
    is_served = await discovery.resolve(kind) is not None
    try:
        config_map = await client.get(CONFIG_MAPS, CONFIG_MAP, ConfigMap)
    except NotFound:
        return ColocationInstallation(is_served=is_served)
    except Forbidden as error:
        return ColocationInstallation(is_served=is_served, unread=str(error))
    configuration = read_slo_configuration(config_map.data)
    nodes = enabled = 0
    try:
        async for page in client.list_pages(NODES, PartialObjectMetadata):
            nodes += len(page.items)
            enabled += sum(_is_enabled(node, configuration) for node in page.items)
    except Forbidden as error:
        return ColocationInstallation(is_served=is_served, is_configured=True, unread=str(error))
    return ColocationInstallation(
        is_served=is_served, is_configured=True, configuration=configuration, nodes=nodes, enabled_nodes=enabled
    )


def _is_enabled(node: PartialObjectMetadata, configuration: SloConfiguration) -> bool:
    labels, annotations = node.metadata.labels or {}, node.metadata.annotations or {}
    return node_strategy(configuration, labels=labels, annotations=annotations).strategy.enable


def judge_installation(installation: ColocationInstallation) -> CheckResult:
    """Judge the parts; the most important problem counts."""
    if not (installation.is_served or installation.is_configured):
        return CheckResult(check=CHECK, state=CheckState.OK, detail="not installed (the default)")
    if installation.unread:
        return CheckResult(check=CHECK, state=CheckState.UNKNOWN, detail=installation.unread)
    problem = next(_problems(installation), None)
    if problem is not None:
        return problem
    if not installation.is_configured:
        detail = f"installed, and off: {CONFIG_MAP_TEXT} does not exist"
    else:
        detail = f"on for {installation.enabled_nodes} of {installation.nodes} nodes, by {CONFIG_MAP_TEXT}"
    return CheckResult(check=CHECK, state=CheckState.OK, detail=detail)


def _problems(installation: ColocationInstallation) -> Iterator[CheckResult]:
    """Yield what is wrong, the most important first."""
    if not installation.is_served:
        yield CheckResult(
            check=CHECK,
            state=CheckState.WARNING,
            detail=f"{CONFIG_MAP_TEXT} exists, but NodeMetrics are not served: the use of nodes is unknown",
            remedy=WeighedChoice("install component colocation (kubectl dra install --help)"),
        )
    problems = installation.configuration.problems
    if problems:
        more = f"; and {len(problems) - PRINTED_MAX} more" if len(problems) > PRINTED_MAX else ""
        printed = "; ".join(str(problem) for problem in problems[:PRINTED_MAX])
        namespace, name = CONFIG_MAP
        yield CheckResult(
            check=CHECK,
            state=CheckState.WARNING,
            detail=f"{CONFIG_MAP_TEXT}: {printed}{more}",
            remedy=WeighedChoice(
                f"correct the ConfigMap: kubectl edit configmap {name} -n {namespace}. A process that starts now takes "
                "a key with an error as absent"
            ),
        )
