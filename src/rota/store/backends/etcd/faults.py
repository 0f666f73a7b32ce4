"""Translates errors of gRPC and etcd into store errors with a remedy.

etcd reports the reason in the text of the status, which is part of its API (`etcdserver: ...`); the code alone does not
distinguish "wrong password" from "request too large". Errors to which the store adds numbers (`Expired`,
`LeaseNotFound`) have a class of their own here.
"""

import grpc  # type: ignore[import-untyped]  # ships no types

from rota.store import errors


class Compacted(errors.StoreError):
    """The requested revision is compacted."""


class Ahead(errors.StoreError):
    """The requested revision does not exist yet."""


class LeaseGone(errors.StoreError):
    """The named lease does not exist."""


class TokenRefused(errors.StoreError):
    """The login token is no longer valid: log in again."""


class LoginNotNeeded(errors.StoreError):
    """This etcd has no users."""


#: With these the request had no effect and never will, so a write may be sent again. The first ones are gRPC's messages
#: about a connection that failed; the others are etcd's, sent before it processes the request.
_NOT_CARRIED_OUT = (
    "failed to connect to all addresses",
    "errors resolving",
    "DNS resolution failed",
    "etcdserver: no leader",
    "etcdserver: too many requests",
    "etcdserver: rpc not supported for learner",
)

_AWAY = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
}

_KNOWN: dict[str, type[errors.StoreError]] = {
    "etcdserver: mvcc: required revision has been compacted": Compacted,
    "etcdserver: mvcc: required revision is a future revision": Ahead,
    "etcdserver: requested lease not found": LeaseGone,
    "etcdserver: invalid auth token": TokenRefused,
    "etcdserver: revision of auth store is old": TokenRefused,
    "etcdserver: authentication is not enabled": LoginNotNeeded,
    "etcdserver: authentication failed, invalid user ID or password": errors.AccessDenied,
    "etcdserver: user name is empty": errors.AccessDenied,
    "etcdserver: user name not found": errors.AccessDenied,
    "etcdserver: permission denied": errors.AccessDenied,
    "etcdserver: mvcc: database space exceeded": errors.NoSpace,
    "etcdserver: corrupt cluster": errors.Corrupt,
}

_REMEDIES: dict[type[errors.StoreError], str] = {
    errors.AccessDenied: "check user and password in the URL and the user's role, which must cover the store's prefix",
    errors.NoSpace: "compact and defragment etcd or raise its --quota-backend-bytes, then disarm the alarm",
    errors.Corrupt: "restore etcd from a snapshot",
}

#: Messages of gRPC about a connection that failed because of TLS.
_TLS = ("andshake", "CERTIFICATE", "TSI_")

_TOO_LARGE = ("etcdserver: request is too large", "received message larger than max")
_TOO_MANY = "etcdserver: too many operations in txn request"


def translate(code: grpc.StatusCode, text: str, *, where: str, writes: bool) -> errors.StoreError:
    """The error for a failed call; `writes` says whether the call could have changed anything."""
    kind = _KNOWN.get(text)
    if kind is not None:
        return kind(f"{where} refuses: {text}", _REMEDIES.get(kind, ""))
    if code == grpc.StatusCode.PERMISSION_DENIED:
        return errors.AccessDenied(f"{where} refuses: {text}", _REMEDIES[errors.AccessDenied])
    if any(phrase in text for phrase in _TOO_LARGE):
        return errors.StoreError(f"{where} refuses: {text}", "write less at once, or raise etcd's --max-request-bytes")
    if text == _TOO_MANY:
        return errors.StoreError(f"{where} refuses: {text}", "start etcd with --max-txn-ops=128 or more")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return errors.BadAddress(f"{where} is no etcd v3 server ({text})", "check host and port")
    if code in _AWAY or any(phrase in text for phrase in _NOT_CARRIED_OUT):
        return _away(text or code.name, where, writes)
    return errors.StoreError(f"{where} failed: {code.name} {text}", "look into etcd's log")


def _away(text: str, where: str, writes: bool) -> errors.Unavailable:
    uncertain = writes and not any(phrase in text for phrase in _NOT_CARRIED_OUT)
    if any(word in text for word in _TLS):
        remedy = "check the URL's ca, cert and key, and that the server speaks TLS"
    elif uncertain:
        remedy = "read before writing again: the write may have happened"
    else:
        remedy = "check that it runs, and the URL (etcds:// if it speaks TLS)"
    # gRPC prefixes the cause with its own layers: "failed to connect to ...: UNKNOWN: ...: Connection refused".
    cause = text.removesuffix(": OK").rpartition(": ")[2].rstrip("]")
    return errors.Unavailable(f"{where} does not answer ({cause})", remedy, uncertain=uncertain)
