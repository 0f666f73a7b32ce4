"""The gRPC health check (`grpc.health.v1.Health/Check`) for probes.

The two messages are small enough to be encoded by hand. The connection is grpcio's, which is an optional dependency:
without it the probe fails with a message that says so.
"""

import importlib
from typing import Any, Final, NamedTuple

_METHOD: Final = "/grpc.health.v1.Health/Check"
_SERVING: Final = 1
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_MISSING: Final = "gRPC probes need grpcio on the worker, and it is not installed there (pip install grpcio)"


class Health(NamedTuple):
    """The result of a health check."""

    serves: bool
    message: str = ""


async def ask(target: str, service: str) -> Health:
    """Check the service at `host:port`, empty for the whole server; the caller sets the timeout."""
    try:
        # Imported at the first such probe: most workers never need it.
        grpc: Any = importlib.import_module("grpc")
        aio: Any = importlib.import_module("grpc.aio")
    except ImportError:
        return Health(False, _MISSING)
    # Without a proxy: the machine's HTTP proxy is not meant for containers.
    async with aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        check = channel.unary_unary(_METHOD, request_serializer=bytes, response_deserializer=bytes)
        try:
            answer = await check(request(service))
        except grpc.RpcError as problem:
            return Health(False, f"gRPC health check failed: {problem.code().name}: {problem.details()}")
    found = status(answer)
    shown = _STATUSES[found] if found < len(_STATUSES) else str(found)
    return Health(found == _SERVING, "" if found == _SERVING else f'service unhealthy (responded with "{shown}")')


def request(service: str) -> bytes:
    """A HealthCheckRequest: field 1 is the service's name."""
    name = service.encode()
    return b"" if not name else b"\x0a" + _varint(len(name)) + name


def status(answer: bytes) -> int:
    """The status of a HealthCheckResponse, field 1; 0 if it is absent. ValueError for anything else."""
    if not answer:
        return 0
    if answer[0] != 0x08:
        raise ValueError("the answer is no HealthCheckResponse")
    value, shift = 0, 0
    for byte in answer[1:]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value
    raise ValueError("the answer is cut off")


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
