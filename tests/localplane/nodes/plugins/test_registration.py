"""Plugins that come and go, over real sockets."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from dra.kube.client import Client
from dra.kube.clock import SYSTEM
from dra.kube.rate_limiter import RateLimiter
from localplane.nodes.drivers import ClaimIdentity, DriverError
from localplane.nodes.plugins.dra_plugin_manager import DraPluginManager
from localplane.nodes.plugins.node_folders import NodeFolders
from localplane.nodes.plugins.slice_wiper import ResourceSliceWiper
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.localplane.components import User
from tests.localplane.nodes.plugins.socket_plugin import DRIVER, SocketPlugin

CLAIM = ClaimIdentity(("ml", "train"), "uid-1")


async def eventually(holds):
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - sockets and servers tell nobody
            await asyncio.sleep(0.02)


async def eventually_names(user, wanted):
    async with asyncio.timeout(20):
        while await user.names("resourceslices") != wanted:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.02)


@pytest.fixture
def folders(short_path):
    return NodeFolders(short_path)


@pytest.fixture
async def user():
    user = User(ApiServer(random=seeded(1)))
    await user.create("nodes", {"metadata": {"name": "n1"}})
    return user


@pytest.fixture
async def node(folders, user):
    async with managed(folders, user) as plugins:
        yield plugins


SYNC = 0.05
"""Seconds between two looks for sockets, instead of one second."""


@contextlib.asynccontextmanager
async def managed(folders, user, *, wipe_after=0.2, kept_drivers=frozenset()):
    """The plugin manager of a kubelet."""
    client = Client(LocalTransport(user.server), RateLimiter(1e6, 1e6))
    wiper = ResourceSliceWiper(client, "n1", kept_drivers=kept_drivers)
    plugins = DraPluginManager(
        "n1", folders, wiper=wiper, clock=SYSTEM, on_change=lambda: None, wipe_after=wipe_after, sync_seconds=SYNC
    )
    running = asyncio.create_task(plugins.run())
    await eventually(folders.registry.is_dir)
    yield plugins
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def publish(user, name, *, driver=DRIVER, node="n1"):
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}]
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    await user.create("resourceslices", {"metadata": {"name": name}, "spec": spec})


def registered(node, driver=DRIVER):
    return lambda: driver in node and node.get_plugin(driver).connected


async def test_a_plugin_is_found_registered_and_told_so(node, folders):
    async with SocketPlugin(folders) as plugin:
        await eventually(registered(node))
        assert (await node.get_plugin(DRIVER).prepare([CLAIM])).keys() == {"uid-1"}
        await eventually(lambda: plugin.statuses)
        assert plugin.statuses == [(True, "")]
        assert plugin.prepared == [[("ml", "train", "uid-1")]]


async def test_the_folders_are_their_owners(node, folders):  # noqa: ARG001 - it has made them
    assert {each.stat().st_mode & 0o777 for each in (folders.plugins, folders.registry, folders.cdi)} == {0o700}


async def test_a_driver_that_nobody_has_registered_is_told(node):
    with pytest.raises(DriverError, match=r"^DRA driver x.example.com is not registered$"):
        node.get_plugin("x.example.com")


async def test_removing_the_socket_deregisters(node, folders):
    async with SocketPlugin(folders) as plugin:
        await eventually(registered(node))
        await plugin.withdraw()
        await eventually(lambda: DRIVER not in node)


async def test_a_mistake_with_one_plugin_is_told_with_its_traceback_and_the_others_go_on(node, folders, caplog):
    validate = node.validate

    def clumsy(driver, endpoint, versions):
        if driver != DRIVER:
            raise TypeError("no such plugin was ever thought of")
        validate(driver, endpoint, versions)

    node.validate = clumsy
    async with SocketPlugin(folders, driver="odd.example.com"):
        await eventually(lambda: "odd.example.com-reg.sock cannot be registered: internal error" in caplog.text)
        assert "TypeError: no such plugin" in caplog.text
        async with SocketPlugin(folders):
            await eventually(registered(node))


async def test_a_mistake_in_what_goes_on_beside_the_plugins_ends_them(folders, user, monkeypatch):
    async def wipe(_self, _driver=None):
        raise TypeError("no such slice was ever thought of")

    monkeypatch.setattr(ResourceSliceWiper, "wipe", wipe)
    client = Client(LocalTransport(user.server), RateLimiter(1e6, 1e6))
    plugins = DraPluginManager(
        "n1", folders, wiper=ResourceSliceWiper(client, "n1"), clock=SYSTEM, on_change=lambda: None
    )
    with pytest.raises(TypeError, match="no such slice"):
        async with asyncio.timeout(20):
            await plugins.run()


async def test_the_newest_instance_is_asked_and_the_older_one_once_that_is_gone(node, folders):
    async with SocketPlugin(folders, instance="old"):
        await eventually(registered(node))
        async with SocketPlugin(folders, instance="new") as new:
            await eventually(lambda: node.get_plugin(DRIVER).path == str(new.endpoint))
            await eventually(registered(node))
            await new.die()
            await eventually(lambda: node.get_plugin(DRIVER).path.endswith("old.sock"))
        assert registered(node)()


async def test_a_socket_that_was_made_anew_is_registered_anew(node, folders):
    async with SocketPlugin(folders):
        await eventually(registered(node))
    async with SocketPlugin(folders) as again:
        await eventually(lambda: again.statuses == [(True, "")])
        await eventually(registered(node))


async def test_only_sockets_without_a_leading_dot_count_in_folders_too(node, folders):
    (folders.registry / "file-reg.sock").write_text("no socket")
    with socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(str(folders.registry / ".hidden-reg.sock"))
        (folders.registry / "below").mkdir()
        plugin = SocketPlugin(folders)
        plugin.registrar = folders.registry / "below" / "reg.sock"
        async with plugin:
            await eventually(registered(node))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"kind": "CSIPlugin"}, "no handler registered for plugin type: CSIPlugin", id="another-type"),
        pytest.param({"versions": ["1.0.0"]}, "plugin validation failed with err: invalid supported", id="version"),
        pytest.param({"versions": []}, "empty list of supported gRPC services", id="no-version"),
    ],
)
async def test_what_cannot_be_used_is_told_why(node, folders, options, told):
    async with SocketPlugin(folders, **options) as plugin:
        await eventually(lambda: plugin.statuses)
        [(accepted, error), *_] = plugin.statuses
        assert not accepted
        assert error.startswith("RegisterPlugin error -- ")
        assert told in error
        assert DRIVER not in node


async def test_an_endpoint_cannot_be_taken_over(node, folders):
    async with SocketPlugin(folders) as first:
        await eventually(registered(node))
        thief = SocketPlugin(folders)
        thief.registrar = folders.registry / "thief-reg.sock"
        thief.endpoint = folders.plugins / DRIVER / "thief.sock"
        async with thief:
            thief.endpoint = first.endpoint
            await eventually(lambda: any("already registered" in error for _, error in thief.statuses))


async def test_a_plugin_that_refuses_the_news_is_dropped_and_tried_again(node, folders):
    plugin = SocketPlugin(folders)
    plugin.refuse_registration = True
    async with plugin:
        await eventually(lambda: plugin.statuses and DRIVER not in node)
        plugin.refuse_registration = False
        await eventually(registered(node))


async def test_a_plugin_that_does_not_say_who_it_is_is_tried_again(node, folders):
    plugin = SocketPlugin(folders)
    plugin.silent = True
    async with plugin:
        await eventually(lambda: plugin.info_calls)
        plugin.silent = False
        await eventually(registered(node))


@pytest.mark.parametrize("version", ["v1.DRAPlugin", "v1beta1.DRAPlugin"])
async def test_each_version_is_spoken(node, folders, version):
    async with SocketPlugin(folders, versions=[version]):
        await eventually(registered(node))
        assert node.get_plugin(DRIVER).version == version
        await node.get_plugin(DRIVER).prepare([CLAIM])
        await node.get_plugin(DRIVER).unprepare([CLAIM])


async def test_a_kubelet_that_starts_removes_the_slices_of_its_node_and_of_no_other(folders, user):
    await publish(user, "mine")
    await publish(user, "own", driver="gpu.example.com")
    await publish(user, "others", node="n2")
    async with managed(folders, user, kept_drivers=frozenset({"gpu.example.com"})):
        await eventually_names(user, ["others", "own"])


async def test_a_driver_that_stays_away_loses_its_slices_and_no_others(node, folders, user):
    async with SocketPlugin(folders) as plugin:
        await eventually(registered(node))
        await publish(user, "mine")
        await publish(user, "others", driver="other.example.com")
        await plugin.die()
        await eventually_names(user, ["others"])


async def test_a_driver_that_comes_back_in_time_keeps_its_slices(folders, user):
    async with managed(folders, user, wipe_after=3.0) as node:
        async with SocketPlugin(folders):
            await eventually(registered(node))
            await publish(user, "mine")
        await eventually(lambda: DRIVER not in node)
        assert node._wipes
        async with SocketPlugin(folders):
            await eventually(registered(node))
            assert not node._wipes
            assert await user.names("resourceslices") == ["mine"]


async def test_a_reboot_forgets_plugins_and_cdi_files_and_finds_the_plugins_again(node, folders, user):
    async with SocketPlugin(folders) as plugin:
        await eventually(registered(node))
        await eventually(lambda: plugin.statuses == [(True, "")])  # the plugin hears of its registration a moment later
        (folders.cdi / "test.json").write_text("{}")
        await publish(user, "mine")
        node.restart()
        assert DRIVER not in node
        assert not list(folders.cdi.iterdir())
        await eventually_names(user, [])
        await eventually(registered(node))
        await eventually(lambda: plugin.statuses == [(True, ""), (True, "")])


SOCKET_PATH_MAX = 107
"""Maximum length of a unix socket's path in bytes (``sun_path`` without its terminator)."""


def test_the_folder_of_a_node_leaves_room_for_a_socket_that_bears_a_uid():
    folders = NodeFolders(Path("/tmp/dra-0123abcd/node-1000"))  # noqa: S108 - no file
    name = f"gpu.reserve.dra-{'0' * 36}-reg.sock"
    assert len(bytes(folders.registry / name)) <= SOCKET_PATH_MAX
