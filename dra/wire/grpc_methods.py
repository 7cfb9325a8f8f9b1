"""One method of a service, as a server offers it and a client calls it.

The types of a method's messages are known here once, so that neither side can mix them up.
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
    """A request and its answer."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]

    def handler(
        self, behaviour: Callable[[RequestT, aio.ServicerContext[RequestT, ResponseT]], Awaitable[ResponseT]]
    ) -> MethodHandler:
        """Return what a server needs to answer with `behaviour`."""
        return grpc.unary_unary_rpc_method_handler(
            behaviour,
            request_deserializer=self.request.FromString,
            response_serializer=self.response.SerializeToString,
        )

    def call(self, channel: aio.Channel, *, service: str) -> "aio.UnaryUnaryMultiCallable[RequestT, ResponseT]":
        """Return a callable that asks the service with this full name."""
        return channel.unary_unary(
            f"/{service}/{self.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )


@dataclass(frozen=True, kw_only=True)
class ServerStreamingMethod(Generic[RequestT, ResponseT]):
    """A request and any number of answers."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]

    def handler(
        self, behaviour: Callable[[RequestT, aio.ServicerContext[RequestT, ResponseT]], AsyncIterator[ResponseT]]
    ) -> MethodHandler:
        """Return what a server needs to answer with what `behaviour` yields."""
        return grpc.unary_stream_rpc_method_handler(
            behaviour,
            request_deserializer=self.request.FromString,
            response_serializer=self.response.SerializeToString,
        )

    def call(self, channel: aio.Channel, *, service: str) -> "aio.UnaryStreamMultiCallable[RequestT, ResponseT]":
        """Return a callable that asks the service with this full name."""
        return channel.unary_stream(
            f"/{service}/{self.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.response.FromString,
        )


def add_service(server: aio.Server, service: str, handlers: Mapping[str, MethodHandler]) -> None:
    """Let the server answer for the service with this full name; handlers by the name of their method."""
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
