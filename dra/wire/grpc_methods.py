"""One method of a service, as a server offers it and a client calls it.

The types of a method's messages are declared here once, so that neither side can confuse them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import aio

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic for type checkers only


@dataclass(frozen=True, kw_only=True)
class UnaryMethod(Generic[RequestT, ResponseT]):
    """A method with one request and one response."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]

    def handler(
        self, behaviour: Callable[[RequestT, aio.ServicerContext[RequestT, ResponseT]], Awaitable[ResponseT]]
    ) -> MethodHandler:
        """Return a handler that answers with `behaviour`."""
        return grpc.unary_unary_rpc_method_handler(
            behaviour,
            request_deserializer=self.request.FromString,
            response_serializer=self.response.SerializeToString,
        )

    def call(self, channel: aio.Channel, *, service: str) -> "aio.UnaryUnaryMultiCallable[RequestT, ResponseT]":
        """Return a callable that calls the service of this full name."""
        return channel.unary_unary(
            f"/{service}/{self.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )


@dataclass(frozen=True, kw_only=True)
class ServerStreamingMethod(Generic[RequestT, ResponseT]):
    """A method with one request and any number of responses."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]

    def handler(
        self, behaviour: Callable[[RequestT, aio.ServicerContext[RequestT, ResponseT]], AsyncIterator[ResponseT]]
    ) -> MethodHandler:
        """Return a handler that answers with everything that `behaviour` yields."""
        return grpc.unary_stream_rpc_method_handler(
            behaviour,
            request_deserializer=self.request.FromString,
            response_serializer=self.response.SerializeToString,
        )

    def call(self, channel: aio.Channel, *, service: str) -> "aio.UnaryStreamMultiCallable[RequestT, ResponseT]":
        """Return a callable that calls the service of this full name."""
        return channel.unary_stream(
            f"/{service}/{self.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )


def add_service(server: aio.Server, service: str, handlers: Mapping[str, MethodHandler]) -> None:
    """Register the service of this full name with the server; handlers by the name of their method."""
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
