"""Creates the audit events of a request.

The policy is evaluated as soon as the user and the request are known, so that nothing is kept of a request that will
not be logged.
"""

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, Protocol

from rota.api.identifiers import GroupResource
from rota.apiserver.audit import events
from rota.apiserver.audit.policy import Asked, Level, Policy, Ruling, Stage
from rota.apiserver.http import responses
from rota.apiserver.http.requests import Request
from rota.apiserver.interfaces import User, Verdict
from rota.apiserver.routing import Route
from rota.kit.clock import Clock

_HEADER: Final = b"audit-id"
_GIVEN_ID: Final = re.compile(r"[!-~]{1,64}")
_NOBODY: Final = User(name="")


class Log(Protocol):
    """The output of audit lines."""

    def write(self, line: bytes, /) -> None:
        """Write a line asynchronously."""
        ...


class Auditor:
    """Writes the events that a policy asks for."""

    def __init__(self, policy: Policy, log: Log, clock: Clock, *, secret: Collection[GroupResource] = ()) -> None:
        """`secret` are resources, besides secrets, whose bodies are never written."""
        self._policy: Final = policy
        self._log: Final = log
        self._clock: Final = clock
        self._secret: Final = frozenset(secret)

    def now(self) -> float:
        """The time of a request."""
        return self._clock.now()

    def open(
        self, request: Request, route: Route | None, user: User | None, *, asker: User | None = None
    ) -> "Record | None":
        """Start the record of a request; None if the policy does not log it. `asker` is the user who impersonates
        `user`.
        """
        verb = request.method.lower() if route is None else route.verb
        ruling = self._policy.ruling(Asked(user=asker or user or _NOBODY, verb=verb, route=route, path=request.path))
        if ruling.level is Level.NONE:
            return None
        if ruling.level is Level.REQUEST:
            request.keep_body()
        return Record(self, request, ruling, route, user=user, asker=asker or user)

    def write(self, facts: events.Facts, stage: Stage) -> None:
        """Write an event."""
        self._log.write(events.line(facts, stage, self._clock.now(), secret=self._secret))


class Record:
    """The audit record of one request."""

    __slots__ = (
        "_annotations",
        "_asker",
        "_audit_id",
        "_auditor",
        "_received",
        "_request",
        "_route",
        "_ruling",
        "_user",
    )

    def __init__(
        self,
        auditor: Auditor,
        request: Request,
        ruling: Ruling,
        route: Route | None,
        *,
        user: User | None,
        asker: User | None,
    ) -> None:
        self._auditor: Final = auditor
        self._request: Final = request
        self._ruling: Final = ruling
        self._route: Final = route
        self._user: Final = user
        self._asker: Final = asker
        self._received: Final = auditor.now()
        given = request.header(_HEADER)
        self._audit_id: Final = given if _GIVEN_ID.fullmatch(given) else str(uuid.uuid4())
        self._annotations: Final[dict[str, str]] = {}

    def judged(self, verdict: Verdict) -> None:
        """The authorization decision and its reason."""
        self._annotations["authorization.k8s.io/decision"] = "allow" if verdict.allowed else "forbid"
        self._annotations["authorization.k8s.io/reason"] = verdict.reason

    def annotated(self, annotations: Mapping[str, str]) -> None:
        """What admission has to say."""
        self._annotations.update(annotations)

    def began(self, answer: responses.Answer) -> responses.Answer:
        """The response with its audit id; the start of a stream is logged."""
        if not isinstance(answer, responses.Response):
            self._write(answer, Stage.STARTED)
        return replace(answer, headers=(*answer.headers, (_HEADER, self._audit_id.encode())))

    def ended(self, answer: responses.Answer) -> None:
        """The response has been sent."""
        self._write(answer, Stage.COMPLETE)

    def _write(self, answer: responses.Answer, stage: Stage) -> None:
        if stage in self._ruling.omitted:
            return
        request = self._request
        query = request.raw_query.decode("latin-1")
        facts = events.Facts(
            audit_id=self._audit_id,
            level=self._ruling.level,
            received=self._received,
            method=request.method,
            uri=f"{request.path}?{query}" if query else request.path,
            address=request.address,
            agent=request.header(b"user-agent"),
            user=self._asker,
            impersonated=self._user if self._user is not self._asker else None,
            route=self._route,
            answer=answer,
            body=request.kept_body,
            content_type=request.header(b"content-type"),
            annotations=self._annotations,
            omits_managed_fields=self._ruling.omits_managed_fields,
        )
        self._auditor.write(facts, stage)
