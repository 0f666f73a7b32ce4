"""Permission checks of a component at its start: missing permissions are named in one line.

A component has a table of the permissions that it uses. Without the required ones it does not start; without the others
it works with restrictions (`loses` says which) and logs them. If the server does not answer access reviews, nothing is
checked, and refusals appear later.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.errors import UserError

log = logs.get(__name__)

_REVIEWS: Final = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_WHO: Final = ("authentication.k8s.io", "v1", "selfsubjectreviews")
#: Concurrent access reviews.
_AT_ONCE: Final = 8


class MissingRights(UserError):
    """A required permission of a component is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One verb on one resource, everywhere or in one namespace, on all objects or on one."""

    verb: str
    #: Plural, with the subresource if there is one: `pods/eviction`.
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    #: What the component cannot do without it; empty if it is required.
    loses: str = ""

    @property
    def what(self) -> str:
        """The resource in words."""
        plain, slash, subresource = self.resource.partition("/")
        told = f"{plain}.{self.group}" if self.group else plain
        told += f"{slash}{subresource}"
        if self.name:
            told += f" {self.name}"
        return f"{told} in {self.namespace}" if self.namespace else told

    def attributes(self) -> dict[str, str]:
        """As resource attributes of an access review."""
        plain, _, subresource = self.resource.partition("/")
        told = {
            "verb": self.verb,
            "group": self.group,
            "resource": plain,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {key: value for key, value in told.items() if value}


def table(verbs: str, resources: str, group: str = "", **more: Any) -> tuple[Right, ...]:
    """Several at once: `table("get,list", "nodes,pods")`."""
    return tuple(
        Right(verb=verb, resource=resource, group=group, **more)
        for resource in resources.split(",")
        for verb in verbs.split(",")
    )


def leased(namespace: str, name: str) -> tuple[Right, ...]:
    """The permissions of leader election by a Lease."""
    group = "coordination.k8s.io"
    return (
        *table("create", "leases", group, namespace=namespace),
        *table("get,update", "leases", group, namespace=namespace, name=name),
    )


async def missing(client: Client, rights: Iterable[Right]) -> list[Right]:
    """The missing permissions, in order; empty if the server does not answer access reviews."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def lacks(right: Right) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": right.attributes()},
        }
        async with places:
            answer = await client.create(_REVIEWS, review)
        return not (answer.get("status") or {}).get("allowed")

    wanted = list(rights)
    try:
        answers = await asyncio.gather(*map(lacks, wanted))
    except (errors.Forbidden, errors.NotFound, errors.MethodNotAllowed) as problem:
        log.warning("rights cannot be checked", error=problem)
        return []
    return [right for right, insufficient in zip(wanted, answers, strict=True) if insufficient]


async def check(client: Client, rights: Iterable[Right], *, part: str, manifest: str) -> frozenset[Right]:
    """Check the permissions of a component; MissingRights names the required ones that are missing.

    Others that are missing are logged and returned. `manifest` names the file with a role that has all of them.
    """
    insufficient = await missing(client, rights)
    fatal = [right for right in insufficient if not right.loses]
    if fatal:
        who = await _who(client)
        raise MissingRights(
            f"the {part} lacks rights: {who} may not {in_words(fatal)}", f"grant the roles of {manifest}"
        )
    for loses in dict.fromkeys(right.loses for right in insufficient):
        log.warning(
            "some rights are missing",
            without_them=loses,
            missing=in_words([right for right in insufficient if right.loses == loses]),
            remedy=f"grant the roles of {manifest}",
        )
    return frozenset(insufficient)


def in_words(rights: Sequence[Right]) -> str:
    """Permissions as text: `list, watch nodes; create pods/eviction`."""
    by_what: dict[str, list[str]] = {}
    for right in rights:
        by_what.setdefault(right.what, []).append(right.verb)
    by_verbs: dict[str, list[str]] = {}
    for what, verbs in by_what.items():
        by_verbs.setdefault(", ".join(verbs), []).append(what)
    return "; ".join(f"{verbs} {', '.join(what)}" for verbs, what in by_verbs.items())


async def _who(client: Client) -> str:
    """Our user name at the server."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await client.create(_WHO, review)
    except errors.ApiError:
        return "it"
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "it")
