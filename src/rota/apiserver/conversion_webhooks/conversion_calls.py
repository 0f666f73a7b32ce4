"""Converts objects by the webhooks of their definitions: many objects in one review.

An object is sent in the shape of its own version (pruned, with its defaults) and pruned to the shape of the other one
when it comes back, as the stock server does it. A failure is the response to the request that needs the conversion,
in upstream's words.
"""

import uuid
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from rota.api import errors
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.api.patches import json_values
from rota.apiserver import bodies
from rota.apiserver.admission import webhook_answers
from rota.apiserver.admission.webhook_client import CallFailed, WebhookClient
from rota.apiserver.conversion_webhooks import conversion_reviews
from rota.apiserver.conversion_webhooks.conversion_reviews import InvalidConversion
from rota.apiserver.crd import pruning
from rota.apiserver.crd.kind_catalog import CustomKindCatalog
from rota.apiserver.crd.registration import WebhookSettings
from rota.apiserver.interfaces import Object

TIMEOUT_S: Final = 30.0
#: Objects of one review, by number and by size; the response may be some times larger.
_MOST_OBJECTS: Final = 500
_MOST_BYTES: Final = 1024 * 1024


class ConversionWebhooks:
    """The conversions of one server; `of` is the lookup of its `Kinds`."""

    def __init__(self, catalog: CustomKindCatalog, client: WebhookClient) -> None:
        self._catalog: Final = catalog
        self._client: Final = client
        self._known: Final[dict[GroupResource, WebhookConversion]] = {}

    def of(self, resource: ResourceType) -> "WebhookConversion | None":
        """The conversion of a kind; None if its versions differ in name only."""
        settings = self._catalog.webhook(resource)
        known = self._known.get(resource.group_resource)
        if known is not None and known.settings is settings:
            return known
        if known is not None:
            self._known.pop(resource.group_resource)
            if settings is None:
                self._client.forget([known.webhook])
        if settings is None:
            return None
        found = self._known[resource.group_resource] = WebhookConversion(settings, self._client)
        return found


class WebhookConversion:
    """Implements `interfaces.Conversion` for one definition."""

    def __init__(self, settings: WebhookSettings, client: WebhookClient) -> None:
        self.settings: Final = settings
        self.storage_version: str = settings.storage_version
        #: By this the client counts calls.
        self.webhook: Final = f"conversion/{settings.name}"
        self._client: Final = client

    async def convert(self, objects: Sequence[Object], api_version: str, /) -> list[Object]:
        """See `Conversion.convert`; the arguments are left as they are."""
        found = list(objects)
        others = [place for place, obj in enumerate(found) if obj["apiVersion"] != api_version]
        sent = [self._complete(found[place]) for place in others]
        for start, end in _portions(sent):
            for place, obj in zip(others[start:end], await self._ask(sent[start:end], api_version), strict=True):
                found[place] = obj
        return found

    def _complete(self, obj: Object) -> Object:
        """A copy in the shape of its version, without the resourceVersion, which is no part of what is stored."""
        copied: Object = json_values.copy(obj)
        copied["metadata"].pop("resourceVersion", None)
        shape = self.settings.shapes.get(copied["apiVersion"])
        if shape is not None:
            pruning.shape(copied, shape)
        return copied

    async def _ask(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        first = conversion_reviews.shown_kind(objects[0]["apiVersion"], objects[0]["kind"])
        try:
            converted = await self._answered(objects, api_version)
        except (CallFailed, InvalidConversion, bodies.Unreadable) as error:
            raise errors.ApiError(f"conversion webhook for {first} failed: {error}") from None
        if len(converted) != len(objects):
            why = f"returned {len(converted)} objects, expected {len(objects)}"
            raise errors.ApiError(f"conversion webhook for {first} {why}")
        adopted = []
        for place, (original, obj) in enumerate(zip(objects, converted, strict=True)):
            try:
                found = conversion_reviews.adopt(original, obj, api_version, place)
            except InvalidConversion as error:
                shown = conversion_reviews.shown_kind(original["apiVersion"], original["kind"])
                raise errors.ApiError(f"conversion webhook for {shown} returned {error}") from None
            shape = self.settings.shapes.get(api_version)
            if shape is not None:
                pruning.prune(found, shape)
            adopted.append(found)
        return adopted

    async def _answered(self, objects: Sequence[Object], api_version: str) -> list[object]:
        settings, uid = self.settings, str(uuid.uuid4())
        which = conversion_reviews.version(settings.review_versions)
        body = conversion_reviews.review(which, uid, objects, api_version)
        answer = await self._client.post(self.webhook, settings.client, body, timeout_s=TIMEOUT_S)
        kinds = webhook_answers.Kinds(conversion_reviews.KIND, conversion_reviews.API_VERSIONS)
        return conversion_reviews.read(webhook_answers.decoded(answer, kinds, which), which, uid)


def _portions(objects: Sequence[Object]) -> Iterator[tuple[int, int]]:
    """Where reviews begin and end: each has one object at least."""
    start = size = 0
    for place, obj in enumerate(objects):
        weight = len(msgspec.json.encode(obj))
        if place > start and (size + weight > _MOST_BYTES or place - start == _MOST_OBJECTS):
            yield start, place
            start, size = place, 0
        size += weight
    if start < len(objects):
        yield start, len(objects)
