"""Reads the content type of requests, and DeleteOptions from their bodies."""

from typing import Any

from dra.kube.transport import JSON, Request
from localplane import status_errors
from localplane.codecs import ACCEPTED_MEDIA_TYPES, SCHEME_LOCATION, YAML_MEDIA_TYPE, CodecFactory
from localplane.objects import Object
from localplane.schemas import body_parser, go_decoder, protobuf
from localplane.schemas.body_parser import BodySyntaxError
from localplane.schemas.builtin_schemas import DELETE_OPTIONS
from localplane.schemas.go_decoder import UnmarshalTypeError, json_type_name
from localplane.schemas.scalars import ScalarDecodeError


def content_type_of(request: Request) -> str:
    """Return the content type of a request without parameters; JSON if the request names none."""
    return (request.content_type or JSON).partition(";")[0].strip().lower()


def negotiate_content_type(request: Request) -> str:
    """Return the content type of a body other than a patch; raises `StatusError` 415."""
    media_type = content_type_of(request)
    if media_type not in ACCEPTED_MEDIA_TYPES:
        raise status_errors.unsupported_media_type(ACCEPTED_MEDIA_TYPES)
    return media_type


def decode_delete_options(request: Request, codecs: CodecFactory) -> Object:
    """Return the DeleteOptions in a body, empty if there is no body; raises `StatusError` 400 and 415."""
    if not request.body:
        return {}
    try:
        match negotiate_content_type(request):
            case protobuf.MEDIA_TYPE:
                value: Any = protobuf.parse_protobuf(request.body, codecs.builtin_schemas.definition(DELETE_OPTIONS))
            case parsed if parsed == YAML_MEDIA_TYPE:
                value = body_parser.parse_yaml(request.body)[0]
            case _:
                value = body_parser.parse_json(request.body)
        if not isinstance(value, dict | None):
            what = f"json: cannot unmarshal {json_type_name(value)} into Go value of type v1.DeleteOptions"
            raise status_errors.bad_request(f"couldn't get version/kind; json parse error: {what}")
        kind, version = (value or {}).get("kind"), (value or {}).get("apiVersion")
        if kind not in (None, "", "DeleteOptions"):
            raise status_errors.bad_request(f'no kind "{kind}" is registered for version "{version}" {SCHEME_LOCATION}')
        return go_decoder.struct_decoder(codecs.builtin_schemas.definition(DELETE_OPTIONS)).read(value, "", [])
    except (BodySyntaxError, protobuf.ProtobufDecodeError) as error:
        raise status_errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    except (UnmarshalTypeError, ScalarDecodeError) as error:
        raise status_errors.bad_request(str(error)) from None
