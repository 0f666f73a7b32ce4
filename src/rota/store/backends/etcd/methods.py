"""The methods of etcd's v3 API that the store calls.

The paths are etcd's; the messages are wire-compatible subsets, see `etcd.proto`.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from rota.store.backends.etcd import etcd_pb2 as pb

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One of etcd's methods."""

    path: str
    request: type[Request]
    response: type[Response]
    #: Whether a failed call may have changed something that a second call would find changed.
    writes: bool = False
    streams: bool = False


RANGE = Method("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse)
PUT = Method("/etcdserverpb.KV/Put", pb.PutRequest, pb.PutResponse)
TXN = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse, writes=True)
READ_TXN = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)
COMPACT = Method("/etcdserverpb.KV/Compact", pb.CompactionRequest, pb.CompactionResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", pb.WatchRequest, pb.WatchResponse, streams=True)
# An unused lease expires, so a grant may be repeated.
LEASE_GRANT = Method("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse)
LEASE_REVOKE = Method("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse, writes=True)
LEASE_KEEP_ALIVE = Method(
    "/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse, streams=True
)
LEASE_TIME_TO_LIVE = Method(
    "/etcdserverpb.Lease/LeaseTimeToLive", pb.LeaseTimeToLiveRequest, pb.LeaseTimeToLiveResponse
)
STATUS = Method("/etcdserverpb.Maintenance/Status", pb.StatusRequest, pb.StatusResponse)
AUTHENTICATE = Method("/etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse)
