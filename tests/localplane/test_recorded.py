"""Everything that was recorded of decoding, patching and applying, replayed in its order on one stock server.

Compared are the status, the warnings and, of refusals, the text; of applied objects also who owns what. What is not
claimed is named, each with its reason.
"""

import asyncio
import json
import re

import pytest

from dra.kube.transport import APPLY_PATCH, Request
from dra.model.releases import Release
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from tests.localplane.recorded import EXCHANGES
from tests.violations import assert_each

NOT_CLAIMED = {
    "duplicate-unknown": "repeated fields of an object are named before its unknown ones",
    "type-replicas-exponent": "how a number was written is not kept",
    "body-yaml-bad": "PyYAML has words of its own",
    "apply-cut": "likewise",
    "body-protobuf": "protobuf is not read",
    "merge-json-op-unknown": "unknown fields of operations are overlooked",
    "apply-csa-other": "what was before the first application is of before-first-apply",
    "pod-owners-mismatch": "another uid is a conflict here, for all writes",
    "claim-other-uid": "likewise",
    "apply-uid": "likewise",
    "cr-other-kind": "the error names the kind that there is",
}

_QUOTED = re.compile(r'(patch: )?Invalid value: "\{.*\}":', re.DOTALL)


def _told(status):
    """Return what a refusal says, without the object that it quotes whole; several faults in the order of the alphabet.

    The API server visits maps, such as the resources of a container, in another order each time.
    """
    if not isinstance(status, dict):
        return status
    said, several, faults = _QUOTED.sub("…", status.get("message", "")).partition(" is invalid: [")
    return said + several + ", ".join(sorted(faults.removesuffix("]").split(", ")))


def _owners(obj):
    entries = obj["metadata"].get("managedFields", [])
    return [{name: each for name, each in entry.items() if name != "time"} for entry in entries]


@pytest.fixture(scope="module")
def answers():
    server = ApiServer(api=Dialect.STOCK, release=Release.V1_37)

    async def play():
        found = {}
        for name, exchange in EXCHANGES.items():
            raw = None if exchange.body is None else exchange.raw
            request = Request(
                method=exchange.method,
                path=exchange.path,
                query=exchange.query,
                body=raw,
                content_type=exchange.content_type,
                timeout=5,
            )
            found[name] = await server.handle(request)
        return found

    return asyncio.run(play())


def test_the_answer_is_that_of_the_real_server(answers):
    def check(name):
        exchange, answer = EXCHANGES[name], answers[name]
        body = json.loads(answer.body)

        assert answer.headers.get("warning", "") == ", ".join(exchange.warnings)
        if exchange.status >= 400:
            assert _told(body) == _told(exchange.answer)
        assert answer.status == exchange.status

    assert_each([name for name in EXCHANGES if name not in NOT_CLAIMED], check)


@pytest.mark.parametrize("name", NOT_CLAIMED)
def test_what_is_not_claimed_differs_indeed(name, answers):
    exchange, answer = EXCHANGES[name], answers[name]

    told = _told(json.loads(answer.body)) if exchange.status >= 400 else answer.headers.get("warning", "")
    wanted = _told(exchange.answer) if exchange.status >= 400 else ", ".join(exchange.warnings)
    assert told != wanted


def test_the_owners_are_those_of_the_real_server(answers):
    def check(name):
        applied = [each for each in _owners(json.loads(answers[name].body)) if each["operation"] == "Apply"]

        wanted = [each for each in _owners(EXCHANGES[name].answer) if each["operation"] == "Apply"]
        # They are told by the second of their writes, and those of one second by name: the order is that of the clock.
        assert sorted(each["manager"] for each in applied) == sorted(each["manager"] for each in wanted)

    applications = (name for name, each in EXCHANGES.items() if each.content_type == APPLY_PATCH)
    assert_each([name for name in applications if EXCHANGES[name].status < 400], check)
