import pytest

from kubeletplugin.prepared_claims import DoubleAllocationError, PreparedClaims
from tests.kubeletplugin.fakes import claim, prepared, request, result

A, B = prepared(request("a", "gpu-0")), prepared(request("b", "gpu-1"))


def test_what_is_remembered_is_held():
    holdings = PreparedClaims([A, B])
    assert holdings.all == (A, B)
    assert holdings.get(B.claim.uid) == B
    assert str(holdings.allocate(claim("c"), B.items)).endswith(
        "is held by claim ml/b (uid uid-b), refused to claim ml/c (uid uid-c)"
    )


def test_two_preparations_of_one_device_are_an_error():
    with pytest.raises(DoubleAllocationError, match="gpu-0 is held by claim ml/a"):
        PreparedClaims([A, prepared(request("b", "gpu-0"))])


def test_what_is_released_is_free_and_forgotten():
    holdings = PreparedClaims([A])
    holdings.release(A.claim.uid)
    assert (holdings.all, holdings.get(A.claim.uid)) == ((), None)
    assert holdings.allocate(claim("c"), A.items) is None
    holdings.release(claim("never").uid)


def test_a_request_holds_what_its_preparation_holds():
    asked = request("a", "gpu-0", result("gpu-1", share="x"), result("gpu-2", admin=True))
    assert {(item.device, item.share) for item in asked.items} == {("gpu-0", ""), ("gpu-1", "x")}
    assert asked.items == prepared(asked).items
