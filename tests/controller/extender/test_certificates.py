"""HTTPS as kube-scheduler speaks it: certificates of both sides, renewed while the extender runs."""

import asyncio
import logging
import shutil
import ssl
from pathlib import Path

import aiohttp
import pytest

from controller.extender import certificates
from controller.extender.certificates import MalformedCertificateError, ServingCertificate
from controller.extender.server import ExtenderServer
from dra.api.extender_configuration import ExtenderConfiguration, TlsFiles
from tests.controller.extender.authority import SERVER, Authority, openssl

REAL_TIME = True


class Calls:
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
    monkeypatch.setattr(certificates, "RELOAD_INTERVAL", 0.05)
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
    found = ServingCertificate(tls)
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
        ServingCertificate(tls)
    renew(tls, authorities[1])
    assert found.refresh()
    assert not found.refresh()


def test_a_key_that_belongs_to_another_certificate_is_not_taken(tls, authorities):
    found = ServingCertificate(tls)
    shutil.copy(authorities[1].sign(SERVER, usage="serverAuth")[1], tls.key)
    assert not found.refresh()


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(tls):
    openssl("ec", "-in", tls.key, "-aes256", "-passout", "pass:secret", "-out", tls.key)
    with pytest.raises(MalformedCertificateError, match="the key is encrypted"):
        ServingCertificate(tls)
