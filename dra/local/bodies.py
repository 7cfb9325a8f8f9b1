"""What comes in the body of a request besides objects and patches: its media type, and options."""

from typing import Any

from dra.kube.transport import JSON, Request
from dra.local import refusals
from dra.local.objects import Object
from dra.local.patches.bodies import ACCEPTED, SCHEME, YAML, Codecs
from dra.local.schemas import decoding, parsing, protobuf
from dra.local.schemas.decoding import Mismatch, word
from dra.local.schemas.parsing import Unreadable
from dra.local.schemas.scalars import Malformed
from dra.local.schemas.structures import DELETE_OPTIONS


def media_type(request: Request) -> str:
    """Return the content type without parameters; JSON when there is none."""
    return (request.content_type or JSON).partition(";")[0].strip().lower()


def check_media_type(request: Request) -> str:
    """Return the content type of a body that is no patch; raises `Refusal` 415."""
    found = media_type(request)
    if found not in ACCEPTED:
        raise refusals.unsupported_media_type(ACCEPTED)
    return found


def delete_options(request: Request, codecs: Codecs) -> Object:
    """Return the DeleteOptions in a body, if there are any; raises `Refusal` 400 and 415."""
    if not request.body:
        return {}
    try:
        match check_media_type(request):
            case protobuf.MEDIA_TYPE:
                value: Any = protobuf.parse(request.body, codecs.structures.definition(DELETE_OPTIONS))
            case parsed if parsed == YAML:
                value = parsing.parse_yaml(request.body)[0]
            case _:
                value = parsing.parse(request.body)
        if not isinstance(value, dict | None):
            what = f"json: cannot unmarshal {word(value)} into Go value of type v1.DeleteOptions"
            raise refusals.bad_request(f"couldn't get version/kind; json parse error: {what}")
        kind, version = (value or {}).get("kind"), (value or {}).get("apiVersion")
        if kind not in (None, "", "DeleteOptions"):
            raise refusals.bad_request(f'no kind "{kind}" is registered for version "{version}" {SCHEME}')
        return decoding.struct(codecs.structures.definition(DELETE_OPTIONS)).read(value, "", [])
    except (Unreadable, protobuf.Undecodable) as error:
        raise refusals.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    except (Mismatch, Malformed) as error:
        raise refusals.bad_request(str(error)) from None
