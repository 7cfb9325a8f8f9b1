"""The page over TLS: certificates are renewed while it runs, and browsers are told to stay with TLS."""

import shutil
import ssl

import aiohttp
import pytest

from dra.api.page_configuration import PageTlsFiles
from tests.controller.extender.authority import SERVER, Authority
from tests.dra.cli.page.team_cluster import running, two_tenants


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authorities")
    return [Authority(folder, name) for name in ("first", "second")]


@pytest.fixture
def tls(tmp_path, authorities):
    found = PageTlsFiles(certificate=str(tmp_path / "tls.crt"), key=str(tmp_path / "tls.key"))
    renew(found, authorities[0])
    return found


def renew(tls, authority):
    certificate, key = authority.sign(SERVER, usage="serverAuth")
    shutil.copy(certificate, tls.certificate)
    shutil.copy(key, tls.key)


async def status(browser, authority):
    """Return the status and the headers of a new connection that trusts one authority."""
    context = ssl.create_default_context(cafile=authority.certificate)
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with (
        aiohttp.ClientSession(trust_env=False, connector=connector) as session,
        session.get(
            f"{browser.application.address}/api/session",
            server_hostname=SERVER,
            headers={"Authorization": "Bearer operator-token"},
        ) as response,
    ):
        return response.status, response.headers


async def test_a_renewed_certificate_is_used_without_a_restart(tls, authorities):
    first, second = authorities
    async with running(await two_tenants(), tls=tls) as browser:
        assert browser.application.address.startswith("https://")
        found, headers = await status(browser, first)
        assert (found, headers["Strict-Transport-Security"]) == (200, "max-age=31536000")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status(browser, second)
        renew(tls, second)
        assert browser.application._certificates.refresh()
        assert (await status(browser, second))[0] == 200
