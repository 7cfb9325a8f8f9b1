"""When the certificates of an installation expire."""

import base64
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

import pytest

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight import certificates
from dra.cli.kubectl.preflight.certificates import CertificateEnd
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Request
from localplane.certificates import LIFETIME, generate_self_signed
from localplane.objects import encode
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def end(days):
    return CertificateEnd(name="Secret tls -n dra-reserve, tls.crt", end=NOON + timedelta(days=days))


@pytest.mark.parametrize(
    ("ends", "verdict", "said"),
    [
        pytest.param([], CheckState.OK, "none in use (the default)", id="none"),
        pytest.param([end(90), end(60)], CheckState.OK, "expires in 60 days, on 2027-01-20 12:00 UTC", id="fresh"),
        pytest.param([end(90), end(10)], CheckState.WARNING, "expires in 10 days", id="soon"),
        pytest.param([end(1)], CheckState.MISSING, "expires in 1 days", id="tomorrow"),
        pytest.param([end(-1)], CheckState.MISSING, "has expired, on 2026-11-20", id="expired"),
        pytest.param(
            [CertificateEnd(name="Secret tls -n dra-reserve", end=None)],
            CheckState.MISSING,
            "Secret tls -n dra-reserve: missing, or contains no certificate",
            id="no-certificate",
        ),
    ],
)
def test_the_certificate_that_expires_first_decides(ends, verdict, said):
    found = certificates.judge_ends(ends, now=NOON)
    assert found.state is verdict
    assert said in found.detail
    assert (found.remedy is not None) == (verdict is not CheckState.OK)


async def test_the_secrets_that_the_deployments_mount_are_read():
    server = ApiServer(api=Dialect.STOCK, random=seeded(1))

    async def create(path, body):
        request = Request(method="POST", path=path, body=encode(body), content_type="application/json", timeout=5.0)
        assert (await server.handle(request)).status == 201

    def made(now):
        return generate_self_signed(name="x", address=IPv4Address("127.0.0.1"), now=now).certificate

    def coded(*texts):
        return base64.b64encode("".join(texts).encode()).decode()

    later = NOON + timedelta(days=30)
    await create("/api/v1/namespaces", {"metadata": {"name": "dra-reserve"}})
    data = {"tls.crt": coded(made(later), made(NOON)), "ca.crt": coded(made(NOON), made(later)), "tls.key": coded("no")}
    await create("/api/v1/namespaces/dra-reserve/secrets", {"metadata": {"name": "tls"}, "data": data})
    labels = {"app.kubernetes.io/name": "dra-reserve"}
    volumes = [{"name": name, "secret": {"secretName": name}} for name in ("tls", "forgotten")]
    containers = [{"name": "main", "image": "x"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, "volumes": volumes}}
    deployment = {"metadata": {"name": "dra-reserve-extender", "labels": labels}}
    deployment["spec"] = {"selector": {"matchLabels": labels}, "template": template}
    await create("/apis/apps/v1/namespaces/dra-reserve/deployments", deployment)
    found = await certificates.find_ends(Client(LocalTransport(server), RateLimiter(1e6, 1e6)))
    assert found == [
        CertificateEnd(name="Secret tls -n dra-reserve, tls.crt", end=NOON + LIFETIME),
        CertificateEnd(name="Secret tls -n dra-reserve, ca.crt", end=later + LIFETIME),
        CertificateEnd(name="Secret forgotten -n dra-reserve", end=None),
    ]
