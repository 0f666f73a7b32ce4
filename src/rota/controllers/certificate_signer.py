"""Which certificate requests satisfy their signer, and what is signed. Pure.

The three signers are upstream's (`pkg/apis/certificates/helpers.go`, 1.33): clients of the API server, kubelet clients,
and kubelet servers.
"""

import ipaddress
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from rota.api.users import MASTERS
from rota.pki.authorities import Purpose
from rota.pki.certificates import IpAddress
from rota.pki.signing_requests import Request

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
WORKER_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
WORKER_SERVING: Final = "kubernetes.io/kubelet-serving"
#: Annotation in which the API server records the address that a request came from.
CLIENT_ADDRESS: Final = "rota.dev/client-address"

#: Annotation of a node with the hash of its worker's client key.
KEY_ANNOTATION: Final = "rota.dev/client-key"

NODE_PREFIX: Final = "system:node:"
NODES: Final = ("system:nodes",)
_COMMON: Final = frozenset({"digital signature", "key encipherment"})

#: What is wrong with a request; empty if it is valid.
Check: TypeAlias = Callable[[Request, Collection[str]], str]


def _client(request: Request, usages: Collection[str]) -> str:
    if not request.subject.common_name:
        return "the request names no user: its common name is empty"
    if MASTERS in request.subject.organizations:
        return f"a certificate request cannot grant membership of {MASTERS}"
    return _wants(usages, "client auth")


def _worker(request: Request) -> str:
    if request.subject.organizations != NODES:
        return "subject organization is not system:nodes"
    name = request.subject.common_name
    if not name.startswith(NODE_PREFIX) or name == NODE_PREFIX:
        return "subject common name does not begin with system:node:"
    if request.has_other_names:
        return "mail addresses and URIs are not allowed"
    return ""


def _worker_client(request: Request, usages: Collection[str]) -> str:
    if request.names.dns or request.names.addresses:
        return "host names and addresses are not allowed"
    return _worker(request) or _wants(usages, "client auth")


def _worker_serving(request: Request, usages: Collection[str]) -> str:
    if not request.names.dns and not request.names.addresses:
        return "at least one host name or address is required"
    return _worker(request) or _wants(usages, "server auth")


def may_serve(request: Request, come_from: Collection[str], *, reserved: Collection[IpAddress]) -> bool:
    """Whether a worker's serving certificate may be approved automatically.

    A worker chooses its own name and reports its own addresses, so neither proves anything: the name could be a
    master's. The only verified fact is the address from which the API server received the request.
    """
    proved = {_plain(ipaddress.ip_address(one)) for one in come_from}
    wanted = {_plain(one) for one in request.names.addresses}
    return not request.names.dns and bool(wanted) and wanted <= proved and wanted.isdisjoint(map(_plain, reserved))


def _plain(address: IpAddress) -> IpAddress:
    """An IPv4 address, also if a dual-stack socket reported it as an IPv4-mapped IPv6 address."""
    return getattr(address, "ipv4_mapped", None) or address


def _wants(usages: Collection[str], purpose: str) -> str:
    """Whether the usages are the purpose and digital signature, optionally key encipherment (RSA), and no others."""
    wanted = frozenset(usages)
    if not {purpose, "digital signature"} <= wanted <= _COMMON | {purpose}:
        return f"usages did not match: want digital signature, {purpose}, and key encipherment at most"
    return ""


#: Signers by name: how each checks a request, and the usages of its certificates.
SIGNERS: Final[Mapping[str, tuple[Check, Purpose]]] = {
    CLIENT: (_client, Purpose.CLIENT),
    WORKER_CLIENT: (_worker_client, Purpose.CLIENT),
    WORKER_SERVING: (_worker_serving, Purpose.SERVER),
}
