"""Recorded requests with something in them changed at random: whatever comes in, an answer goes out."""

import json
import random

import pytest

from dra.kube.transport import Request
from localplane.server import ApiServer
from tests.localplane.recorded import EXCHANGES

ODD = (None, True, 0, -1, 1.5, "", [], {}, "x", [None], [{}], {"a": None}, 10**30, [[]], ["x", {}])
DIRECTED = ("$patch", {"$patch": "delete"}, {"$patch": "replace"}, [{"$patch": "replace"}], {"$retainKeys": ["a"]})
NAMES = (
    *("$patch", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "$retainKeys"),
    *("managedFields", "metadata", "name", "unknown"),
)
ROUNDS = 2


def mangled(value, chance):
    """Return a value in which some parts are gone, new or something else."""
    if chance.random() < 0.06:
        return chance.choice(ODD + DIRECTED)
    if isinstance(value, dict):
        found = {name: mangled(each, chance) for name, each in value.items() if chance.random() > 0.04}
        if chance.random() < 0.05:
            found[chance.choice(NAMES)] = chance.choice(ODD + DIRECTED)
        return found
    if isinstance(value, list):
        return [*(mangled(each, chance) for each in value), *([chance.choice(ODD)] if chance.random() < 0.05 else [])]
    return value


def body(exchange, chance):
    try:
        raw = json.dumps(mangled(json.loads(exchange.raw), chance)).encode()
    except ValueError:
        raw = exchange.raw
    if chance.random() < 0.05:
        at = chance.randrange(len(raw) + 1)
        raw = raw[:at] + bytes([chance.randrange(256)]) + raw[at + 1 :]
    return raw


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_comes_in_is_answered(seed):
    chance = random.Random(seed)  # noqa: S311 - to be the same each time
    server = ApiServer()
    for exchange in [each for each in EXCHANGES.values() for _ in range(ROUNDS)]:
        content_type = exchange.content_type if chance.random() < 0.9 else "application/yaml"
        request = Request(
            method=exchange.method,
            path=exchange.path,
            query=exchange.query,
            body=None if exchange.body is None else body(exchange, chance),
            content_type=content_type,
            timeout=5,
        )
        answer = await server.handle(request)
        if answer.headers["content-type"] == "application/json":
            assert "kind" in json.loads(answer.body), request
