"""The webhooks that configurations declare, in the order in which they are called, and calls of one of them."""

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, fields, gotext, names
from rota.api.cel.environment import Program
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver import bodies
from rota.apiserver.admission import webhook_answers, webhook_reviews
from rota.apiserver.admission.policy_variables import request as request_facts
from rota.apiserver.admission.request_matching import RequestMatcher
from rota.apiserver.admission.reviewed_request import ReviewedRequest
from rota.apiserver.admission.webhook_client import CallFailed, WebhookClient
from rota.apiserver.admission.webhook_reviews import InvalidResponse, UnreadablePatch, Verdict
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.strategies.policy_expressions import compile_conditions
from rota.kit import logs

log = logs.get(__name__)

MUTATING: Final = GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
VALIDATING: Final = GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations")
_DEFAULT_S: Final = 10
_DRY: Final = ("None", "NoneOnDryRun")
_KINDS: Final = webhook_answers.Kinds(webhook_reviews.KIND, webhook_reviews.API_VERSIONS)


class FailedCall(Exception):
    """A webhook could not be asked, or its answer cannot be used; its failure policy decides."""


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    """One webhook of a configuration."""

    configuration: str
    name: str
    #: Identifies it among all webhooks of its kind: names may be used several times.
    uid: str
    declared: Mapping[str, Any]
    matcher: RequestMatcher
    conditions: tuple[tuple[str, Program], ...]
    #: Why a match condition does not compile.
    error: str

    @property
    def fails_open(self) -> bool:
        """Whether a request is admitted without this webhook if it cannot be asked."""
        return self.declared.get("failurePolicy") == "Ignore"

    @property
    def reinvocable(self) -> bool:
        """Whether it is called again after later changes."""
        return self.declared.get("reinvocationPolicy") == "IfNeeded"


class WebhookTable:
    """The webhooks of all configurations of one kind, by the names of configurations and in their order there."""

    def __init__(self, copy: WatchCache, client: WebhookClient, *, mutating: bool) -> None:
        self._client: Final = client
        self._mutating: Final = mutating
        self._configured: Final[dict[str, tuple[Webhook, ...]]] = {}
        self.webhooks: tuple[Webhook, ...] = ()
        copy.subscribe(self._note)

    def concerns(self, plural: str, subresource: str) -> bool:
        """Whether a webhook may be about a resource or subresource."""
        return any(one.matcher.names(plural, subresource) for one in self.webhooks)

    def _note(self, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        before = self._configured.pop(name, ())
        if new is not None:
            self._configured[name] = tuple(_webhooks(new, "mutating" if self._mutating else "validating"))
        left = {one.uid for one in self._configured.get(name, ())}
        self._client.forget([one.uid for one in before if one.uid not in left])
        self.webhooks = tuple(one for _, group in sorted(self._configured.items()) for one in group)

    async def shown_as(self, webhook: Webhook, request: ReviewedRequest) -> ResourceType | None:
        """The version in which a webhook reviews a request; None if it does not. Forbidden if that is not known."""
        resource = await request.shown_as(webhook.matcher)
        if resource is None or not (webhook.conditions or webhook.error):
            return resource
        failures = [webhook.error] if webhook.error else []
        if not failures:
            unmet, failures = await request.unmet(webhook.conditions, await request.variables(resource))
            if unmet:
                return None
        if not failures:
            return resource
        if webhook.fails_open:
            return None
        raise errors.forbidden(request.at.resource.group_resource, request.refused_name, fields.aggregate(failures))

    async def call(self, webhook: Webhook, request: ReviewedRequest, resource: ResourceType) -> Verdict:
        """The webhook's verdict on a request; FailedCall if it has none."""
        at, declared = request.at, webhook.declared
        if at.dry_run and declared.get("sideEffects") not in _DRY:
            raise errors.bad_request(f"admission webhook {gotext.quote(webhook.name)} does not support dry run")
        try:
            which = webhook_reviews.version(declared.get("admissionReviewVersions") or ())
        except ValueError as error:
            raise FailedCall(f"could not create admission objects: {error}") from None
        uid = str(uuid.uuid4())
        facts = request_facts(at, request.what, name=request.name, shown=resource)
        body = webhook_reviews.review(which, uid, facts, *await request.objects(resource))
        client, seconds = declared.get("clientConfig") or {}, declared.get("timeoutSeconds") or _DEFAULT_S
        try:
            answer = await self._client.post(webhook.uid, client, body, timeout_s=seconds)
            said = webhook_answers.decoded(answer, _KINDS, which)
        except (CallFailed, bodies.Unreadable) as error:
            raise FailedCall(f"failed to call webhook: {error}") from None
        try:
            verdict = webhook_reviews.read(said, which, uid, mutating=self._mutating)
        except InvalidResponse as error:
            raise FailedCall(f"received invalid webhook response: {error}") from None
        except UnreadablePatch as error:
            raise FailedCall(str(error)) from None
        for key, value in verdict.annotations.items():
            annotate(at, f"{webhook.name}/{key}", value)
        for warning in verdict.warnings:
            at.warn(warning)
        return verdict

    def failure(self, webhook: Webhook, error: FailedCall, at: Attributes, place: str) -> errors.ApiError | None:
        """The refusal of a request whose webhook could not be asked; None if it is admitted without."""
        text = f"failed calling webhook {gotext.quote(webhook.name)}: {error}"
        log.warning("a webhook could not be asked", webhook=webhook.name, error=error, admitted=webhook.fails_open)
        if not webhook.fails_open:
            return errors.internal_error(text)
        kind = "mutation" if self._mutating else "validating"
        annotate(at, f"failed-open.{kind}.webhook.admission.k8s.io/{place}", webhook.name)
        return None


def annotate(at: Attributes, key: str, value: str) -> None:
    """Add to the audit event what it does not have yet; keys that are no qualified names are left out."""
    if not names.check_label_key(key):
        at.annotations.setdefault(key, value)


def annotation(webhook: Webhook, **facts: Any) -> str:
    """The value of an annotation about a call."""
    said = {"configuration": webhook.configuration, "webhook": webhook.name, **facts}
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def _webhooks(configuration: Object, kind: str) -> Iterable[Webhook]:
    name = configuration["metadata"]["name"]
    seen: dict[str, int] = {}
    for declared in configuration.get("webhooks") or ():
        webhook = declared.get("name") or ""
        count = seen[webhook] = seen.get(webhook, -1) + 1
        matcher = RequestMatcher(declared, rules=declared.get("rules") or ())
        path = fields.Path("matchConditions")
        conditions, wrong = compile_conditions(declared.get("matchConditions") or (), path, params=False)
        error = wrong[0].detail if wrong else ""
        yield Webhook(name, webhook, f"{kind}/{name}/{webhook}/{count}", declared, matcher, conditions, error)
