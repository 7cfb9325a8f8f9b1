import pytest

from dra.engine.claims.claim_cache import ClaimCache


@pytest.fixture
def world():
    return ClaimCache()
