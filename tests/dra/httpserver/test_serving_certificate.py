"""HTTPS as kube-scheduler speaks it: certificates of both sides, renewed while the extender runs."""

import asyncio
import logging
import re
import shutil
import ssl
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from controller.extender.metrics import ExtenderMetrics
from controller.extender.server import ExtenderServer
from dra.api.extender_configuration import ExtenderConfiguration, TlsFiles
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.httpserver import serving_certificate
from dra.httpserver.serving_certificate import DAY, MalformedCertificateError, ServingCertificate
from dra.kube.clock import SYSTEM
from tests.controller.extender.authority import SERVER, Authority, openssl

REAL_TIME = True


class Calls:
    verbs = ("filter",)

    async def handle(self, verb, body):
        return 200, verb.encode() + body


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authorities")
    return [Authority(folder, name) for name in ("first", "second")]


@pytest.fixture
def tls(tmp_path, authorities):
    """Section `tls`, with files of the first authority."""
    found = TlsFiles(
        certificate=str(tmp_path / "tls.crt"), key=str(tmp_path / "tls.key"), client_authority=str(tmp_path / "ca.crt")
    )
    renew(found, authorities[0])
    return found


def renew(tls, authority):
    certificate, key = authority.sign(SERVER, usage="serverAuth")
    shutil.copy(certificate, tls.certificate)
    shutil.copy(key, tls.key)
    shutil.copy(authority.certificate, tls.client_authority)


def client(authority, *, shown=True, name="kube-scheduler"):
    context = ssl.create_default_context(cafile=authority.certificate)
    if shown:
        context.load_cert_chain(*authority.sign(name, usage="clientAuth"))
    return context


async def asked(server, context):
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with (
        aiohttp.ClientSession(trust_env=False, connector=connector) as session,
        session.post(f"{server.address}/filter", data=b"!", server_hostname=SERVER) as got,
    ):
        return await got.text() if got.status == 200 else f"{got.status} {await got.text()}"


def served(tls):
    configuration = ExtenderConfiguration.model_validate({"serve": {"address": "127.0.0.1", "port": 0}})
    return ExtenderServer(configuration.model_copy(update={"tls": tls}), Calls(), observer=lambda *_: None)


async def test_only_who_shows_a_certificate_of_the_authority_is_answered(tls, authorities):
    first, second = authorities
    async with served(tls) as server:
        assert server.address.startswith("https://")
        assert await asked(server, client(first)) == "filter!"
        with pytest.raises(aiohttp.ClientError):
            await asked(server, client(first, shown=False))
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await asked(server, client(second))


async def test_another_client_of_the_same_authority_is_refused_and_told_what_to_do(tls, authorities, caplog):
    async with served(tls) as server:
        with caplog.at_level(logging.WARNING):
            said = [await asked(server, client(authorities[0], name="kubelet")) for _ in range(3)]
        assert await asked(server, client(authorities[0])) == "filter!"
    text = (
        "403 the client certificate has the name kubelet, and only kube-scheduler may call; add the name to "
        "tls.clientNames of the extender, or have a certificate made with the name"
    )
    assert said == [text] * 3
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "allowed",
    [
        pytest.param(("kubelet", "other"), id="one-of-the-names-that-are-configured"),
        pytest.param((), id="no-names-are-configured"),
    ],
)
async def test_a_client_is_answered_whose_name_is_allowed(tls, authorities, allowed):
    async with served(tls.model_copy(update={"client_names": allowed})) as server:
        assert await asked(server, client(authorities[0], name="kubelet")) == "filter!"


async def test_without_an_authority_for_clients_anybody_is_answered(tls, authorities):
    async with served(tls.model_copy(update={"client_authority": ""})) as server:
        assert await asked(server, client(authorities[0], shown=False)) == "filter!"


async def test_renewed_files_are_in_use_without_a_restart_both_ours_and_whom_we_trust(tls, authorities, monkeypatch):
    monkeypatch.setattr(serving_certificate, "RELOAD_INTERVAL", 0.05)
    first, second = authorities
    async with served(tls) as server:
        assert await asked(server, client(first)) == "filter!"
        renew(tls, second)
        async with asyncio.timeout(10):
            while True:
                try:
                    answer = await asked(server, client(second))
                except aiohttp.ClientError:
                    continue
                break
        assert answer == "filter!"
        with pytest.raises(aiohttp.ClientError):
            await asked(server, client(first))


@pytest.mark.parametrize(
    ("field", "content", "said"),
    [
        pytest.param("certificate", "half of a certi", "tls.certificate: .*: is not a PEM certificate", id="half"),
        pytest.param("key", "", "that matches tls.key", id="empty-key"),
        pytest.param("client_authority", "x", "tls.clientAuthority: .*: contains no PEM certificate", id="authority"),
        pytest.param("certificate", None, "tls.certificate: .*: No such file", id="gone"),
    ],
)
def test_of_files_that_are_no_good_the_last_ones_stay_and_the_log_says_so_once(
    tls, authorities, caplog, field, content, said
):
    found = ServingCertificate(tls, wall=SYSTEM.wall)
    path = Path(getattr(tls, field))
    path.unlink()
    if content is not None:
        path.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert not found.refresh()
        assert not found.refresh()
    (told,) = caplog.messages
    assert told.endswith("keeping the previous certificate")
    with pytest.raises(MalformedCertificateError, match=said):
        ServingCertificate(tls, wall=SYSTEM.wall)
    renew(tls, authorities[1])
    assert found.refresh()
    assert not found.refresh()


def test_a_key_that_belongs_to_another_certificate_is_not_taken(tls, authorities):
    found = ServingCertificate(tls, wall=SYSTEM.wall)
    shutil.copy(authorities[1].sign(SERVER, usage="serverAuth")[1], tls.key)
    assert not found.refresh()


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(tls):
    openssl("ec", "-in", tls.key, "-aes256", "-passout", "pass:secret", "-out", tls.key)
    with pytest.raises(MalformedCertificateError, match="the key is encrypted"):
        ServingCertificate(tls, wall=SYSTEM.wall)


class Later:
    """A wall clock that a test sets forward."""

    def __init__(self):
        self.days = 0.0

    def wall(self):
        return SYSTEM.wall() + timedelta(days=self.days)


def test_the_end_of_each_certificate_is_known_and_told_before(tls, caplog):
    """An expired certificate stopped all scheduling without a line in the log."""
    clock = Later()
    with caplog.at_level(logging.WARNING):
        found = ServingCertificate(tls, wall=clock.wall)
        ends = found.expiries()
        assert set(ends) == {"serving", "client-authority"}
        assert 59 * DAY < ends["serving"] < 60 * DAY < 89 * DAY < ends["client-authority"] < 90 * DAY
        assert caplog.messages == []
        for clock.days in (40, 47, 47.1, 59.5, 59.6, 61, 62):
            found.refresh()
    said = [re.search(r"expires in \S+ days|has expired", each)[0] for each in caplog.messages]
    assert said == ["expires in 13.0 days", "expires in 0.5 days", "has expired"]
    assert all(each.startswith("tls.certificate: ") for each in caplog.messages)
    assert found.expiries()["serving"] < 0


def test_a_new_certificate_that_has_expired_is_not_taken(tls, authorities, caplog):
    clock = Later()
    found = ServingCertificate(tls, wall=clock.wall)
    certificate, key = authorities[0].sign(SERVER, usage="serverAuth", days=80)
    shutil.copy(certificate, tls.certificate)
    shutil.copy(key, tls.key)
    assert found.refresh()
    clock.days = 70
    renew(tls, authorities[0])
    assert not found.refresh()
    assert found.expiries()["serving"] > 0
    assert any("has expired on" in each and "keeping the previous certificate" in each for each in caplog.messages)


def test_a_process_starts_with_an_expired_certificate_and_takes_a_renewed_one(tls, authorities):
    """Its metric tells what is wrong; a process that ended would not."""
    clock = Later()
    clock.days = 61
    found = ServingCertificate(tls, wall=clock.wall)
    assert found.expiries()["serving"] < 0
    certificate, key = authorities[0].sign(SERVER, usage="serverAuth", days=80)
    shutil.copy(certificate, tls.certificate)
    shutil.copy(key, tls.key)
    assert found.refresh()
    assert found.expiries()["serving"] > 0


def test_a_kubelets_swap_of_a_secret_is_followed_and_a_half_is_not_used(authorities, tmp_path):
    """The files are links to a folder, and the folder is a link that is replaced at once."""
    folders = [tmp_path / name for name in ("..1", "..2")]
    names = ("tls.crt", "tls.key", "ca.crt")
    for folder, authority in zip(folders, authorities, strict=True):
        folder.mkdir()
        certificate, key = authority.sign(SERVER, usage="serverAuth")
        for path, name in zip((certificate, key, authority.certificate), names, strict=True):
            shutil.copy(path, folder / name)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "..data").symlink_to(folders[0])
    for name in names:
        (mounted / name).symlink_to(Path("..data") / name)
    files = TlsFiles(
        certificate=str(mounted / "tls.crt"), key=str(mounted / "tls.key"), client_authority=str(mounted / "ca.crt")
    )
    found = ServingCertificate(files, wall=SYSTEM.wall)
    (mounted / "tls.key").unlink()
    (mounted / "tls.key").symlink_to(folders[1] / "tls.key")  # half of a swap: the key of the next certificate
    assert not found.refresh()
    (mounted / "..tmp").symlink_to(folders[1])
    (mounted / "..tmp").rename(mounted / "..data")
    assert found.refresh()
    assert not found.refresh()


async def test_the_certificate_of_the_scheduler_is_known_once_it_has_called(tls, authorities):
    async with served(tls) as server:
        assert set(server.certificate_expiries()) == {"serving", "client-authority"}
        assert await asked(server, client(authorities[0])) == "filter!"
        assert 0 < server.certificate_expiries()["client"] < 60 * DAY


def test_a_metric_has_the_ends():
    metrics = ExtenderMetrics(SchedulerCache())
    metrics.observe_certificates(lambda: {"serving": -5.0})
    text = metrics.render().decode()
    assert 'dra_reserve_extender_certificate_expiry_seconds{certificate="serving"} -5.0' in text
