"""A PUT or an apply that creates an object needs the permission to create it, besides the one for the request."""

from dataclasses import dataclass
from typing import ClassVar

from rota.api.identifiers import GroupResource
from rota.apiserver.authorization import request_attributes
from rota.apiserver.interfaces import Attributes, Authorizer, Object, Question

_UPDATES = frozenset({"update", "patch"})


@dataclass(frozen=True, slots=True)
class CreationByUpdate:
    """Checks updates of objects that do not exist."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    authorizer: Authorizer

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Forbidden if the user may only change existing objects."""
        if old is not None or at.verb not in _UPDATES:
            return
        question = Question(
            user=at.user,
            verb="create",
            group=at.resource.group,
            resource=at.resource.plural,
            namespace=at.namespace,
            name=at.name,
        )
        verdict = await self.authorizer.authorize(question)
        if not verdict.allowed:
            raise request_attributes.refusal(question, verdict)
