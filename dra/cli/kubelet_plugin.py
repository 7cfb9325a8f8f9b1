"""Implements ``dra-reserve kubelet-plugin``, which runs the DRA drivers of a node, and its subcommands.

``inspect`` and ``gather`` only read; ``release`` unprepares claims that a kubelet has forgotten. Everything but click
is imported inside the functions: help is quick, and the subcommands that read need no gRPC.
"""

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click

from dra.cli.cluster_flags import cluster_options

if TYPE_CHECKING:
    from dra.api.process_settings import AddressFlag
    from dra.model.pods import Pod
    from kubeletplugin.application import PluginApplication
    from kubeletplugin.driver_factory import DriverOptions
    from kubeletplugin.manual_release import HeldClaim

F = TypeVar("F", bound=Callable[..., Any])

KUBELET_ROOT: Final = Path("/var/lib/kubelet")
MAX_PORT: Final = 65535
DRIVER_NAMES: Final = ("cpu.reserve.dra", "gpu.reserve.dra")


def _combine_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _folder_option(name: str, default: str, text: str) -> Callable[[F], F]:
    path = click.Path(file_okay=False, path_type=Path)
    return click.option(name, type=path, default=default, show_default=True, help=text)


_driver_flags: Final = _combine_options(
    click.option("--drivers", default="cpu,gpu", show_default=True, help="Drivers to run: cpu, gpu, or both."),
    click.option("--node-name", envvar="NODE_NAME", help="Name of the node. Default: $NODE_NAME, or the host name."),
    click.option(
        "--inventory", default="nvml", show_default=True, help="Source of the GPUs: nvml, sysfs, or simulated:FILE."
    ),
    click.option("--gpu-shares", is_flag=True, help="Offer shares of GPUs (requires DRAConsumableCapacity)."),
    click.option(
        "--gpu-ignored-xids",
        default="",
        help="XIDs after which a GPU stays in use, such as 48,63, in addition to XIDs of application errors.",
    ),
    click.option(
        "--gpu-taint-effect",
        type=click.Choice(["NoSchedule", "NoExecute", "none"]),
        default="NoSchedule",
        show_default=True,
        help="Effect of the taints of a failed GPU; NoExecute evicts pods that use the GPU without a toleration.",
    ),
    click.option(
        "--cpu-devices",
        type=click.Choice(["individual", "grouped", "node"]),
        default="individual",
        show_default=True,
        help=(
            "Publish one device for each CPU, for each NUMA node, or for the node (the latter two require "
            "DRAConsumableCapacity)."
        ),
    ),
    click.option(
        "--reserved-cpus", default="", help=("CPUs that are never allocated, such as 0-1,32. Default: one core.")
    ),
    click.option(
        "--kubepods-cgroup",
        default="",
        help="The kubelet's cgroup of all pods, for machines with several kubelets; none: do not enforce CPUs.",
    ),
    _folder_option("--nvidia-root", "/", "Root folder of the NVIDIA driver, as seen by this process."),
    click.option(
        "--nvidia-root-on-host", default="/", show_default=True, help=("Root folder of the NVIDIA driver on the host.")
    ),
    _folder_option("--kubelet", str(KUBELET_ROOT), "Root folder of the kubelet."),
)
_folder_flags: Final = _combine_options(
    _folder_option(
        "--plugins",
        str(KUBELET_ROOT / "plugins"),
        ("Folder with one folder for each driver; the same path as on the host."),
    ),
    _folder_option(
        "--registry", str(KUBELET_ROOT / "plugins_registry"), ("Folder in which the kubelet looks for plugins.")
    ),
    _folder_option("--cdi", "/var/run/cdi", "Folder in which the container runtime looks for CDI files."),
)


@click.group(invoke_without_command=True)
@_driver_flags
@_folder_flags
@cluster_options
@click.option(
    "--pod-uid",
    envvar="POD_UID",
    default="",
    help=("UID of the plugin's pod; distinguishes the instances of a rolling update."),
)
@click.option(
    "--koordinator-devices",
    is_flag=True,
    help="Report GPUs in Koordinator's kind Device and in labels of the Node (requires component koordinator-devices).",
)
@click.option(
    "--colocation",
    is_flag=True,
    help="Report what the node and its pods use, and hold batch pods back as slo-controller-config says (requires "
    "component colocation).",
)
@click.option("--probes", help="Serve /healthz and /readyz at HOST:PORT.")
@click.option("--metrics", help="Serve /metrics at HOST:PORT.")
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True)
@click.pass_context
def kubelet_plugin(context: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - one for each option
    """Run the DRA drivers of a node: publish devices and prepare claims until SIGTERM."""
    if context.invoked_subcommand is not None:
        return
    import asyncio  # noqa: PLC0415

    from dra.api.process_settings import LogFlags, LogFormat, LogLevel  # noqa: PLC0415
    from dra.cli.installed_commands import require_node_extra  # noqa: PLC0415
    from dra.cli.server_process import error_text, run_until_stopped  # noqa: PLC0415
    from dra.kube.codec import raise_recursion_limit  # noqa: PLC0415
    from dra.kube.errors import ApiError  # noqa: PLC0415
    from dra.telemetry import logs  # noqa: PLC0415

    require_node_extra("dra-reserve kubelet-plugin")
    logs.configure(LogFlags(format=LogFormat(options["log_format"]), level=LogLevel(options["log_level"])))
    raise_recursion_limit()
    try:
        asyncio.run(run_until_stopped(_create_application(options).run(), fatal=(ValueError, OSError)))
    except (ApiError, ValueError, OSError) as error:
        raise click.ClickException(error_text(error)) from error


@kubelet_plugin.command()
@_driver_flags
@click.option("--output", "-o", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True)
def inspect(output: str, **options: Any) -> None:  # noqa: ANN401 - one for each option
    """Display the devices that would be published; requires neither a kubelet nor an API server."""
    from dra.cli.server_process import error_text  # noqa: PLC0415

    try:
        click.echo(_inspection_text(output, options))
    except (ValueError, OSError) as error:
        raise click.ClickException(error_text(error)) from error


@kubelet_plugin.command()
@_driver_flags
@_folder_flags
@cluster_options
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="The archive to write.")
def gather(output: Path | None, **options: Any) -> None:  # noqa: ANN401 - one for each option
    """Write a support bundle (tar.gz): versions, checkpoints, CDI specs, slices, sockets, cgroups; no secrets."""
    from dra.cli.server_process import error_text  # noqa: PLC0415
    from kubeletplugin import support_bundle  # noqa: PLC0415

    node = _node_name(options)
    path = output or Path(f"dra-reserve-{node}.tar.gz")
    sources = support_bundle.BundleSources(
        plugins=options["plugins"],
        registry=options["registry"],
        cdi=options["cdi"],
        kubelet=options["kubelet"],
        drivers=DRIVER_NAMES,
    )
    try:
        published = _inspection_text("table", options)
    except (ValueError, OSError) as error:
        published = f"{error_text(error)}\n"
    content = support_bundle.build_bundle(sources, slices=_published_slices(options, node), published=published)
    try:
        support_bundle.write_bundle(path, content)
    except OSError as error:
        raise click.ClickException(f"bundle {path}: {error.strerror}; name another file with --output") from error
    click.echo(f"{path} ({len(content)} bytes); review the file before you share it: it names claims and namespaces.")


@kubelet_plugin.command()
@_folder_flags
@cluster_options
@click.option("--node-name", envvar="NODE_NAME", help="Name of the node. Default: $NODE_NAME, or the host name.")
@click.option("--pod-uid", envvar="POD_UID", default="", help="UID of the plugin's pod, if the command runs in one.")
@click.option("--claim-uid", required=True, help="UID of the claim, as messages name it.")
@click.option(
    "--pods",
    type=click.File("rb"),
    help=(
        "File with the pods of this node, as kubectl get pods -A -o json writes it; - reads stdin. Default: ask the "
        "API server."
    ),
)
@click.option("--force", is_flag=True, help="Release even if pods use the claim, or if the pods are unknown.")
def release(claim_uid: str, *, pods: IO[bytes] | None, force: bool, **options: Any) -> None:  # noqa: ANN401 - likewise
    """Release the devices of a claim on this node that the kubelet no longer knows.

    The command refuses while a pod on the node uses the claim, or if that is unknown. A running plugin notices the
    release.
    """
    import asyncio  # noqa: PLC0415

    from dra.cli.server_process import error_text  # noqa: PLC0415
    from kubeletplugin import manual_release  # noqa: PLC0415
    from kubeletplugin.checkpoint import CheckpointError  # noqa: PLC0415
    from kubeletplugin.contract import PrepareError  # noqa: PLC0415

    try:
        known = manual_release.held_claims(options["plugins"], DRIVER_NAMES)
        held = [claim for claim in known if claim.preparation.claim.uid == claim_uid]
        if not held:
            others = "; ".join(map(str, known)) or "none"
            raise click.ClickException(
                f"claim with uid {claim_uid}: not prepared on this node. Prepared claims: {others}"
            )
        because = _reason_to_release(held[0], pods, options, force=force)
        for claim in held:
            asyncio.run(manual_release.release_claim(claim, cdi=options["cdi"], because=because))
            click.echo(f"{claim}: released.")
    except (CheckpointError, PrepareError, OSError) as error:
        raise click.ClickException(error_text(error)) from error


def _reason_to_release(held: "HeldClaim", pods: IO[bytes] | None, options: dict[str, Any], *, force: bool) -> str:
    """Return the reason for which a claim counts as unused; raise ClickException if pods may use it."""
    from dra.cli.server_process import error_text  # noqa: PLC0415
    from dra.kube.errors import ApiError  # noqa: PLC0415
    from kubeletplugin import manual_release  # noqa: PLC0415

    node, claim = _node_name(options), held.preparation.claim
    try:
        pod_list = _list_pods(options, node) if pods is None else manual_release.parse_pod_list(pods.read())
        users = manual_release.pods_using_claim(claim, pod_list, node=node, own=options["pod_uid"])
    except (ApiError, ValueError, OSError) as error:
        reason = f"the pods that use it on node {node} are unknown: {error_text(error)}"
        remedy = (
            f"Pass the pods: kubectl get pods -A --field-selector spec.nodeName={node} -o json, as the input of "
            f"dra-reserve kubelet-plugin release --claim-uid {claim.uid} --pods - in the plugin's pod"
        )
    else:
        if not users:
            return f"no pod on node {node} uses it"
        reason = f"is used on node {node} by {', '.join(users)}"
        remedy = "It is released when they end"
    if not force:
        raise click.ClickException(
            f"{claim}: {reason}. Nothing was released. {remedy}. To release it anyway, use --force; a device that is "
            "still in use is then used twice"
        )
    click.echo(f"{claim}: {reason}; released anyway.", err=True)
    return f"by force: {reason}"


def _list_pods(options: dict[str, Any], node: str) -> "tuple[Pod, ...]":
    """Return the pods of a node from the API server; raise ApiError."""
    import asyncio  # noqa: PLC0415

    from dra.kube.client import Client  # noqa: PLC0415
    from dra.kube.http import HttpTransport  # noqa: PLC0415
    from dra.kube.rate_limiter import RateLimiter  # noqa: PLC0415
    from kubeletplugin import manual_release  # noqa: PLC0415

    async def ask() -> "tuple[Pod, ...]":
        transport = HttpTransport(options["cluster_flags"].find_credentials())
        try:
            return await manual_release.list_pods_on_node(Client(transport, RateLimiter(10, 10)), node)
        finally:
            await transport.close()

    return asyncio.run(ask())


def _inspection_text(output: str, options: dict[str, Any]) -> str:
    from kubeletplugin import driver_factory, inspection  # noqa: PLC0415

    with tempfile.TemporaryDirectory(
        prefix="dra-inspect-"
    ) as folder:  # a driver may need a folder; no state is changed
        drivers = driver_factory.create_drivers(_driver_options(options, plugins=Path(folder)))
        if output == "table":
            return inspection.device_table(drivers)
        manifests = inspection.slice_manifests(drivers, node=_node_name(options))
    if output == "json":
        import json  # noqa: PLC0415

        return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}, indent=2)
    import yaml  # noqa: PLC0415

    return yaml.safe_dump_all(manifests, sort_keys=False).rstrip("\n")


def _published_slices(options: dict[str, Any], node: str) -> bytes:
    """Return the ResourceSlices of this node from the API server, or the text of the error."""
    import asyncio  # noqa: PLC0415

    from dra.kube.errors import ApiError  # noqa: PLC0415
    from dra.kube.http import HttpTransport  # noqa: PLC0415
    from dra.kube.resources import SLICES  # noqa: PLC0415
    from dra.kube.transport import Request  # noqa: PLC0415

    async def ask() -> bytes:
        transport = HttpTransport(options["cluster_flags"].find_credentials())
        query = {"fieldSelector": f"spec.nodeName={node}"}
        try:
            return (await transport.send(Request(method="GET", path=SLICES.path(), query=query, timeout=10.0))).body
        finally:
            await transport.close()

    try:
        return asyncio.run(ask())
    except (ApiError, OSError, ValueError) as error:
        return f"{error}\n".encode()


def _node_name(options: dict[str, Any]) -> str:
    return options["node_name"] or socket.gethostname().lower()


def _driver_options(options: dict[str, Any], *, plugins: Path, cdi: Path | None = None) -> "DriverOptions":
    from kubeletplugin import driver_factory  # noqa: PLC0415

    return driver_factory.DriverOptions(
        drivers=driver_factory.parse_driver_names(options["drivers"]),
        node=_node_name(options),
        inventory=options["inventory"],
        plugins=plugins,
        cdi=cdi,
        kubelet=options["kubelet"],
        cpu_devices=options["cpu_devices"],
        reserved_cpus=options["reserved_cpus"],
        kubepods_cgroup=options["kubepods_cgroup"],
        gpu_shares=options["gpu_shares"],
        gpu_ignored_xids=driver_factory.parse_xids(options["gpu_ignored_xids"]),
        gpu_taint_effect=options["gpu_taint_effect"],
        nvidia_root=options["nvidia_root"],
        nvidia_root_on_host=options["nvidia_root_on_host"],
    )


def _create_application(options: dict[str, Any]) -> "PluginApplication":
    from dra.kube.http import HttpTransport  # noqa: PLC0415
    from kubeletplugin import driver_factory  # noqa: PLC0415
    from kubeletplugin.application import KubeletPluginOptions, PluginApplication  # noqa: PLC0415
    from kubeletplugin.colocation.options import ColocationOptions  # noqa: PLC0415
    from kubeletplugin.driver_runner import PluginDirectories  # noqa: PLC0415

    plugins, registry = (options[name].absolute() for name in ("plugins", "registry"))
    settings = KubeletPluginOptions(
        node=_node_name(options),
        directories=PluginDirectories(
            plugins=plugins, registry=registry, cdi=options["cdi"].absolute(), pod_uid=options["pod_uid"]
        ),
        probes=_parse_endpoint("--probes", options["probes"]),
        metrics=_parse_endpoint("--metrics", options["metrics"]),
        koordinator_devices=options["koordinator_devices"],
        colocation=(
            ColocationOptions(kubepods=_kubepods_cgroup(options), marks=options["cdi"].absolute())
            if options["colocation"]
            else None
        ),
    )
    drivers = driver_factory.create_drivers(_driver_options(options, plugins=plugins, cdi=options["cdi"].absolute()))
    transport = HttpTransport(options["cluster_flags"].find_credentials())
    return PluginApplication(drivers, transport, settings)


def _kubepods_cgroup(options: dict[str, Any]) -> str:
    """Return the kubelet's cgroup of all pods, as the user names it; empty where it is to be found by search."""
    from kubeletplugin.driver_factory import NO_CPUSET_ENFORCEMENT  # noqa: PLC0415

    named: str = options["kubepods_cgroup"]
    return "" if named == NO_CPUSET_ENFORCEMENT else named


def _parse_endpoint(option: str, text: str | None) -> "AddressFlag | None":
    from dra.api.process_settings import AddressFlag  # noqa: PLC0415

    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise click.BadParameter(f"{text!r}: use the form 127.0.0.1:8081", param_hint=option)
    return AddressFlag(address=host, port=int(port))
