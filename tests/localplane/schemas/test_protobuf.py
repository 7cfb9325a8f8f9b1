"""Bodies in protobuf, written here by hand as the wire format has them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localplane.schemas import protobuf
from localplane.schemas.builtin_schemas import Dialect, load_builtin_schemas
from localplane.schemas.protobuf import MAGIC, ProtobufDecodeError, parse_protobuf
from tests.localplane.api_client import MAPS, ApiClient
from tests.violations import for_each_case

KINDS = load_builtin_schemas(Dialect.STOCK)
POD = KINDS.find("", "v1", "Pod")
CONFIG_MAP = KINDS.find("", "v1", "ConfigMap")


def varint(value):
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def field(number, value):
    """Return a field: numbers as varints, all else with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(*fields):
    return b"".join(field(number, value) for number, value in fields)


def body(version, kind, *fields):
    return MAGIC + message((1, message((1, version), (2, kind))), (2, message(*fields)), (3, ""), (4, ""))


PAIR = message((1, "a"), (2, "b"))
META = message((1, "p"), (3, "default"), (8, message((1, 1_700_000_000))), (11, PAIR), (7, 5))
RESOURCES = message((2, message((1, "cpu"), (2, message((1, "500m"))))))
PROBE = message((1, message((2, message((2, message((1, 1), (3, "web"))))))), (2, 3))
CONTAINER = message((1, "c"), (2, "image"), (3, "sh"), (3, "-c"), (8, RESOURCES), (10, PROBE))
VOLUME = message((1, "v"), (2, message((19, message((1, message((1, "map"))), (3, 420))))))
SPEC = message((2, CONTAINER), (1, VOLUME), (3, "Never"), (4, -1), (11, 1))


def test_an_object_is_read_as_json_has_it():
    assert parse_protobuf(body("v1", "Pod", (1, META), (2, SPEC)), POD) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"a": "b"},
            "generation": 5,
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "image",
                    "command": ["sh", "-c"],
                    "resources": {"requests": {"cpu": "500m"}},
                    "livenessProbe": {"httpGet": {"port": "web"}, "initialDelaySeconds": 3},
                }
            ],
            "volumes": [{"name": "v", "configMap": {"name": "map", "defaultMode": 420}}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": -1,
            "hostNetwork": True,
        },
    }


def test_bytes_become_base64_and_unknown_fields_are_left_out():
    binary = message((1, "k"), (2, b"\x00\xff"))

    assert parse_protobuf(body("v1", "ConfigMap", (3, binary), (4, 1), (999, "x")), CONFIG_MAP) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "binaryData": {"k": "AP8="},
        "immutable": True,
    }


def test_a_claim_keeps_the_parameters_of_its_driver():
    schema = KINDS.find("resource.k8s.io", "v1", "ResourceClaim")
    opaque = message((1, "d"), (2, message((1, b'{"a": [1]}'))))
    config = message((2, message((1, opaque))))
    found = parse_protobuf(body("resource.k8s.io/v1", "ResourceClaim", (2, message((1, message((3, config)))))), schema)

    assert found["spec"]["devices"]["config"] == [{"opaque": {"driver": "d", "parameters": {"a": [1]}}}]


@for_each_case(
    [
        pytest.param(b"{}", id="json"),
        pytest.param(MAGIC + b"\x0a\xff", id="cut"),
        pytest.param(MAGIC + b"\xff" * 11, id="overflow"),
        pytest.param(MAGIC + b"\x0b", id="group"),
        pytest.param(body("v1", "Pod", (1, 1)), id="no-message"),
        pytest.param(body("v1", "Pod", (1, message((1, b"\xff")))), id="no-text"),
        pytest.param(body("v1", "Pod", (1, message((8, message((1, 1 << 62)))))), id="no-time"),
    ]
)
def test_what_is_no_message_is_said(raw):
    with pytest.raises(ProtobufDecodeError):
        parse_protobuf(raw, POD)


@given(noise=st.binary(max_size=80), schema=st.sampled_from([POD, CONFIG_MAP]))
def test_noise_is_read_or_refused(noise, schema):
    for raw in (MAGIC + noise, body("v1", "Pod", (1, noise), (2, noise))):
        with contextlib.suppress(ProtobufDecodeError):
            parse_protobuf(raw, schema)


async def test_a_server_takes_it_for_built_in_kinds_and_no_others():
    api = ApiClient()
    raw = body("v1", "ConfigMap", (1, message((1, "a"))), (2, PAIR))
    made = await api.ok("POST", MAPS, raw, content_type=protobuf.MEDIA_TYPE)
    assert made["data"] == {"a": "b"}

    status, message_ = await api.refused("POST", MAPS, b"k8s", content_type=protobuf.MEDIA_TYPE)
    assert (status, "does not appear to be a protobuf message" in message_) == (400, True)
    options = MAGIC + message((2, message((1, 0))))
    await api.ok("DELETE", f"{MAPS}/a", options, content_type=protobuf.MEDIA_TYPE)
