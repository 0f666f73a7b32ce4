"""AdmissionReview v1 over HTTP, for the webhooks that components serve: the request of a review, and its answer."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web


async def asked(request: web.Request) -> Mapping[str, Any]:
    """The request in a review; `HTTPBadRequest` if the body is none."""
    try:
        found: Mapping[str, Any] = msgspec.json.decode(await request.read())["request"]
        str(found["uid"])
    except (msgspec.DecodeError, KeyError, TypeError) as problem:
        raise web.HTTPBadRequest(text=f"this is no AdmissionReview: {problem}") from None
    return found


def answer(response: Mapping[str, Any]) -> web.Response:
    """The review with a response, which has the uid of its request."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return web.Response(body=msgspec.json.encode(review), content_type="application/json")
