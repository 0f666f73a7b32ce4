"""Joining a cluster: from an operator's invitation to a client certificate.

A new worker has either a token and a way to verify the masters (the hash of their CA, or its certificate), or a
kubeconfig. With that it requests a worker's certificate, which it then uses for the API. A worker that joined before
finds its certificate in its folder; the masters' addresses of the invitation are used again.
"""

import asyncio
import hmac
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rota.api import errors as api_errors
from rota.client import client_factory, credentials, join_tokens
from rota.client.endpoints import Endpoint
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import errors, logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.pki import pinning
from rota.pki.certificates import Identity
from rota.pki.keys import PrivateKey
from rota.worker import host_resources
from rota.worker.cluster_join import certificate_requests, membership
from rota.worker.cluster_join.membership import Membership
from rota.worker.node import NODES
from rota.worker.worker_assembly import Settings

log = logs.get(__name__)

DEFAULT_PORT: Final = 6443
#: Timeout of the first certificate: an administrator may have to approve it.
_PATIENCE_S: Final = 300.0
#: Timeout for asking the masters whether they still accept a worker that joined before.
_ASKING_S: Final = 5.0


class CannotJoin(errors.UserError):
    """The worker cannot join the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """What an operator gives to a new worker."""

    #: The masters; any of them will do.
    servers: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    #: The hash of the CA's public key, `sha256:...`.
    authority_hash: str = ""
    #: The CA's certificate (PEM).
    authority: bytes | None = None
    #: A kubeconfig's endpoint instead of all these.
    endpoint: Endpoint | None = None


async def enter(folder: Path, node: str, invitation: Invitation, *, clock: Clock, rng: Rng) -> Membership:
    """Join the cluster as a node, or rejoin; `CannotJoin` or another `UserError` says why that is impossible."""
    kept = membership.load(folder, clock=clock)
    if kept is not None:
        again = _again(kept, folder, node, invitation)
        if not invitation.token or await _is_taken(again.endpoint, node):
            return again
    endpoint = invitation.endpoint or await _endpoint(invitation)
    brought = membership.of(endpoint)
    if brought is not None and brought.node == node:
        joined = brought
    else:
        # The key of an earlier worker whose certificate has expired proves that it is the same worker.
        key = membership.former_key(folder, node, clock=clock)
        identity = await _first_certificate(endpoint, node, key, clock=clock, rng=rng)
        joined = Membership(endpoint=replace(endpoint, credentials=credentials.ANONYMOUS), identity=identity).renewed(
            identity
        )
    await asyncio.to_thread(membership.save, folder, joined)
    return joined


def placed(settings: Settings, invitation: Invitation, *, clock: Clock) -> Settings:
    """The settings, completed by the address of the API and this machine's address.

    By default a worker is known by the address from which it reaches the masters: they see it, so they can verify it.
    """
    servers = _servers(invitation)
    if not servers and (kept := membership.load(settings.folder, clock=clock)) is not None:
        servers = (kept.endpoint.server,)
    if not servers:
        raise _told_nothing()
    parts = urlsplit(servers[0])
    assert parts.hostname is not None
    return msgspec.structs.replace(
        settings,
        address=settings.address or host_resources.own_address(parts.hostname),
        api_server=(parts.hostname, str(parts.port or DEFAULT_PORT)),
    )


async def _is_taken(endpoint: Endpoint, node: str) -> bool:
    """Whether the masters still accept this worker's certificate; True while none of them can be reached."""
    transport = client_factory.over_http(endpoint)
    try:
        await Client(transport).with_settings(timeout_s=_ASKING_S).get(NODES, node)
    except api_errors.Unauthorized:
        return False
    except (api_errors.ApiError, TransportError):
        return True
    finally:
        await transport.close()
    return True


def _told_nothing() -> CannotJoin:
    return CannotJoin("this worker was told no master", "name one with --join, as 'rota token create' prints it")


def _again(kept: Membership, folder: Path, node: str, invitation: Invitation) -> Membership:
    elsewhere = "choose another folder with --data"
    if kept.node != node:
        raise CannotJoin(f"the worker in {folder} is {kept.node}, not {node}", elsewhere)
    known = membership.authority_of(kept)
    wanted = invitation.endpoint.certificate_authority if invitation.endpoint is not None else invitation.authority
    pin = pinning.pin(known)
    if (wanted is not None and pinning.pin(wanted) != pin) or invitation.authority_hash not in {"", pin}:
        raise CannotJoin(f"the worker in {folder} belongs to another cluster", elsewhere)
    servers = _servers(invitation)
    if not servers:
        return kept
    # The operator's addresses come first. Addresses that the worker has learned are kept: the operator's master may be
    # down.
    return kept.at(tuple(dict.fromkeys((*servers, kept.endpoint.server, *kept.endpoint.fallbacks))))


def _servers(invitation: Invitation) -> tuple[str, ...]:
    if invitation.endpoint is not None:
        return (invitation.endpoint.server, *invitation.endpoint.fallbacks)
    return tuple(map(_address, invitation.servers))


async def _endpoint(invitation: Invitation) -> Endpoint:
    """The endpoint to use with a token, and how to verify it."""
    servers = _servers(invitation)
    if not servers:
        raise _told_nothing()
    if not join_tokens.FORM.fullmatch(invitation.token):
        raise CannotJoin(
            "a worker joins with a token like abcdef.0123456789abcdef", "make one with 'rota token create' at a master"
        )
    authority = invitation.authority
    if authority is None:
        if not invitation.authority_hash:
            raise CannotJoin(
                "nothing tells this worker how to know the right master",
                "give --ca-hash, as 'rota token create' prints it, or --ca",
            )
        authority = await _find_authority(servers, invitation.authority_hash)
    elif invitation.authority_hash and not hmac.compare_digest(pinning.pin(authority), invitation.authority_hash):
        raise CannotJoin("--ca is not the authority whose hash --ca-hash is", "give the one that is right")
    return Endpoint(
        server=servers[0],
        fallbacks=servers[1:],
        certificate_authority=authority,
        credentials=credentials.bearer(invitation.token),
    )


def _address(server: str) -> str:
    """A master's URL; scheme and port may be omitted."""
    parts = urlsplit(server if "://" in server else f"https://{server}")
    if parts.scheme != "https" or not parts.hostname:
        raise CannotJoin(f"{server!r} is no address of a master", f"write it like https://host:{DEFAULT_PORT}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}:{_port(server, parts.netloc)}"


def _port(server: str, place: str) -> int:
    try:
        return urlsplit(f"//{place}").port or DEFAULT_PORT
    except ValueError:
        raise CannotJoin(f"{server!r} has no valid port", f"write it like https://host:{DEFAULT_PORT}") from None


async def _find_authority(servers: tuple[str, ...], wanted: str) -> bytes:
    """The CA with that hash, from the first master that answers."""
    problem: OSError | None = None
    for server in servers:
        parts = urlsplit(server)
        assert parts.hostname is not None
        try:
            return await pinning.authority_of(parts.hostname, parts.port or DEFAULT_PORT, wanted)
        except OSError as error:
            problem = error
            log.info("master not reached", server=server, error=error)
    raise CannotJoin(
        f"no master answers at {', '.join(servers)}: {_words(problem)}", "is it running, and is this its address?"
    )


async def _first_certificate(
    endpoint: Endpoint, node: str, key: PrivateKey | None, *, clock: Clock, rng: Rng
) -> Identity:
    where = ", ".join((endpoint.server, *endpoint.fallbacks))
    try:
        async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
            return await certificate_requests.obtain(
                client, node, certificate_requests.CLIENT, clock=clock, patience_s=_PATIENCE_S, key=key
            )
    except api_errors.Unauthorized:
        raise CannotJoin(
            f"{where} does not take this token: it is wrong or over", "make another with 'rota token create'"
        ) from None
    except api_errors.ApiError as error:
        raise CannotJoin(f"{where} does not let this worker join: {error}") from error
    except TransportError as error:
        raise CannotJoin(f"no master answers: {error}", "is it running, and is this its address?") from error


def _words(problem: OSError | None) -> str:
    return "" if problem is None else problem.strerror or str(problem) or type(problem).__name__
