"""Logging in with what the kubeconfigs of real clusters contain."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest

from tests.cluster import kubeconfig
from tests.scenarios.credentials import Credentials

SERVER = "https://127.0.0.1:6443"
TOKEN = "t0"  # noqa: S105 opens nothing


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    certificate, key = tmp_path / "admin.crt", tmp_path / "admin.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj=/CN=admin"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def test_a_token_goes_into_a_header(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    path = kubeconfig.write(tmp_path / "k", server=SERVER, certificates=pair[0], token=TOKEN)
    found = Credentials.read(path)
    assert (found.server, found.headers) == (SERVER, {"Authorization": f"Bearer {TOKEN}"})
    assert found.tls.get_ca_certs()


def test_a_client_certificate_goes_into_the_handshake(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    data = [base64.b64encode(path.read_bytes()).decode() for path in pair]
    user = {"client-certificate-data": data[0], "client-key-data": data[1]}
    assert Credentials.read(_written(tmp_path, user)).headers == {}


def test_other_logins_are_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"this user has \['exec'\]; make a token with: kubectl create token"):
        Credentials.read(_written(tmp_path, {"exec": {}}))


def _written(folder: Path, user: object) -> Path:
    path = folder / "kubeconfig"
    path.write_text(json.dumps({"clusters": [{"cluster": {"server": SERVER}}], "users": [{"user": user}]}))
    return path
