"""`POST /rota/v1/pods`: pods that were just bound to this node, told by the leader ahead of the watch.

    {"incarnation": "<which start of this worker is meant>", "pods": [{...}, ...]}

Answered with 200 and, for each pod, an empty text if it was taken, or why it was not; with 409 if another incarnation
is meant. Whatever is not taken comes by the watch, so nothing need be sent twice; what is sent twice is taken once.
"""

from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from rota.api import errors
from rota.worker.worker_assembly import Worker

PATH: Final = "/rota/v1/pods"


class DispatchedPod(msgspec.Struct, frozen=True):
    """What the leader sends."""

    incarnation: str
    pods: list[dict[str, Any]]


_decoder: Final = msgspec.json.Decoder(DispatchedPod)


def route(worker: Worker) -> web.RouteDef:
    """The way in for offers."""
    return web.post(PATH, _take(worker))


def _take(worker: Worker) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        try:
            offer = _decoder.decode(await request.read())
            answers = worker.offer(offer.incarnation, offer.pods)
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as problem:
            raise errors.BadRequest(f"no offer of pods: {problem}") from problem
        return web.Response(body=msgspec.json.encode({"answers": answers}), content_type="application/json")

    return answer
