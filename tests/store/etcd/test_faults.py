import grpc  # type: ignore[import-untyped]
import pytest

from rota.store import errors
from rota.store.backends.etcd import faults

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("code", "text", "uncertain"),
    [
        (UNAVAILABLE, "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: refused", False),
        (UNAVAILABLE, "errors resolving nowhere:2379: [field:hostname lookup error:not found]", False),
        (UNAVAILABLE, "etcdserver: no leader", False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", False),
        (UNAVAILABLE, "Socket closed", True),
        (UNAVAILABLE, "etcdserver: leader changed", True),
        (UNAVAILABLE, "etcdserver: request timed out", True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", True),
    ],
)
def test_a_failed_write_is_certain_only_if_it_cannot_have_happened(
    code: grpc.StatusCode, text: str, uncertain: bool
) -> None:
    error = faults.translate(code, text, where="etcd at here", writes=True)
    assert isinstance(error, errors.Unavailable)
    assert error.uncertain == uncertain
    read = faults.translate(code, text, where="etcd at here", writes=False)
    assert isinstance(read, errors.Unavailable)
    assert not read.uncertain


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", faults.Compacted),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", errors.NoSpace),
        (grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", errors.AccessDenied),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service etcdserverpb.KV", errors.BadAddress),
        (grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", errors.StoreError),
        (grpc.StatusCode.UNKNOWN, "something new", errors.StoreError),
    ],
)
def test_errors_say_what_to_do(code: grpc.StatusCode, text: str, kind: type[errors.StoreError]) -> None:
    error = faults.translate(code, text, where="etcd at here", writes=True)
    assert type(error) is kind
    assert text in str(error)
