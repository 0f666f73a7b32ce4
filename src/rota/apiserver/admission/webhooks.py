"""Mutating and validating webhooks: asks the servers of users whether a request is admitted, and how it is changed.

Mutating webhooks are called one after the other and see each other's changes; after a change, the earlier ones that ask
for it are called once more (`mutation_rounds`). Validating webhooks are called at the same time; the first refusal in
the order of webhooks is the response. Configurations of webhooks and policies are exempt: a webhook that refused its
own removal could not be removed.
"""

import asyncio
from typing import ClassVar, Final

from rota.api import errors, gotext
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.patches import json_patch
from rota.api.patches.errors import PatchError
from rota.apiserver.admission import webhook_reviews
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.reinvocation import Round
from rota.apiserver.admission.request_matching import EXEMPT
from rota.apiserver.admission.reviewed_request import ReviewContext, ReviewedRequest
from rota.apiserver.admission.webhook_client import WebhookClient
from rota.apiserver.admission.webhook_table import (
    MUTATING,
    VALIDATING,
    FailedCall,
    Webhook,
    WebhookTable,
    annotate,
    annotation,
)
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object


class MutatingWebhooks:
    """Asks mutating webhooks; `mutation_rounds` calls it."""

    def __init__(self, copy: WatchCache, client: WebhookClient) -> None:
        self.table: Final = WebhookTable(copy, client, mutating=True)

    @property
    def active(self) -> bool:
        """Whether there is a webhook."""
        return bool(self.table.webhooks)

    def concerns(self, plural: str, subresource: str, /) -> bool:
        """Whether a webhook may be about a resource or subresource."""
        return self.table.concerns(plural, subresource)

    async def mutate(self, request: ReviewedRequest, progress: Round, /) -> bool:
        """Change the request's object as webhooks say, or refuse it; whether something has changed."""
        changed = False
        if request.at.resource.group_resource in EXEMPT:
            return changed
        for number, webhook in enumerate(self.table.webhooks):
            resource = await self.table.shown_as(webhook, request)
            if resource is None or progress.skips(webhook.uid):
                continue
            place = f"round_{progress.number}_index_{number}"
            mutated = False
            try:
                verdict = await self.table.call(webhook, request, resource)
                if not verdict.allowed:
                    raise webhook_reviews.refusal(webhook.name, verdict.status)
                if verdict.patch:
                    new, _ = await request.objects(resource)
                    mutated = await request.change(_patched(webhook, new, verdict.patch), resource)
            except FailedCall as error:
                refusal = self.table.failure(webhook, error, request.at, place)
                if refusal is not None:
                    raise refusal from None
            finally:
                key = f"mutation.webhook.admission.k8s.io/{place}"
                annotate(request.at, key, annotation(webhook, mutated=mutated))
            if mutated:
                changed = True
                progress.changed()
            if webhook.reinvocable:
                progress.called.add(webhook.uid)
        return changed


def _patched(webhook: Webhook, new: Object | None, patch: webhook_reviews.JsonPatch) -> object:
    if new is None:
        name = gotext.quote(webhook.name)
        why = f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
        raise errors.internal_error(why)
    try:
        return json_patch.apply(new, patch)
    except PatchError as error:
        raise errors.internal_error(str(error)) from None


class ValidatingWebhooks:
    """An `Admission` that runs after validation, and before deletions."""

    #: While a webhook is about pods, no pod is made from a template.
    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset({MUTATING, VALIDATING, NAMESPACES})

    def __init__(self, context: ReviewContext, copy: WatchCache, client: WebhookClient) -> None:
        self._context: Final = context
        self.table: Final = WebhookTable(copy, client, mutating=False)

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> None:
        """Admit the request, or refuse it in the words of the first webhook that does."""
        if self.table.webhooks and at.resource.group_resource not in EXEMPT:
            await self.review(ReviewedRequest(self._context, at, new, old))

    async def review(self, request: ReviewedRequest) -> None:
        """Admit a request."""
        asked = []
        for webhook in self.table.webhooks:
            resource = await self.table.shown_as(webhook, request)
            if resource is not None:
                asked.append((webhook, resource))
        if not asked:
            return
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(self._ask(webhook, request, resource, number))
                for number, (webhook, resource) in enumerate(asked)
            ]
        for call in calls:
            refusal = call.result()
            if refusal is not None:
                raise refusal

    async def _ask(
        self, webhook: Webhook, request: ReviewedRequest, resource: ResourceType, number: int
    ) -> errors.ApiError | None:
        try:
            verdict = await self.table.call(webhook, request, resource)
        except FailedCall as error:
            return self.table.failure(webhook, error, request.at, f"round_0_index_{number}")
        except errors.ApiError as error:
            return error
        return None if verdict.allowed else webhook_reviews.refusal(webhook.name, verdict.status)
