"""Client libraries on the local plane: what they do first is discovery, so that is what these tests are about."""

import asyncio
import importlib.util
import os
import subprocess
import sys

import pytest

from tests.clients.conftest import local_plane

WARNINGS = ("error", "ignore:Kubernetes version:UserWarning")
"""As in pyproject.toml; kr8s knows versions up to 1.35."""


@pytest.mark.parametrize(
    "program",
    [
        "the_dynamic_client",
        "the_typed_client",
        "an_operator_of_kopf",
        pytest.param(
            "kr8s", marks=pytest.mark.skipif(importlib.util.find_spec("kr8s") is None, reason="there is no kr8s")
        ),
    ],
)
async def test_a_program_is_content_with_the_local_plane(program, tmp_path):
    async with local_plane(tmp_path) as endpoint:
        done = await asyncio.to_thread(
            subprocess.run,
            [
                sys.executable,
                *(f"-W{warning}" for warning in WARNINGS),
                *("-m", "tests.clients.programs", program, str(endpoint.kubeconfig)),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path)},  # they leave discoveries and certificates behind
        )
    assert done.returncode == 0, done.stderr
