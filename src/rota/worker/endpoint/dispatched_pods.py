"""`POST /rota/v1/pods`: pods that were just bound to this node, sent by the leader ahead of the watch.

    {"incarnation": "<the start of this worker that is meant>", "pods": [{...}, ...]}

The response is 200 with a string per pod: empty if it was accepted, else the reason; or 409 if another incarnation is
meant. A pod that is not accepted arrives by the watch, so nothing is sent twice; a pod that is sent twice is accepted
once.
"""

from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from rota.api import errors
from rota.worker.worker_assembly import Worker

PATH: Final = "/rota/v1/pods"


class DispatchedPod(msgspec.Struct, frozen=True):
    """The request of the leader."""

    incarnation: str
    pods: list[dict[str, Any]]


_decoder: Final = msgspec.json.Decoder(DispatchedPod)


def route(worker: Worker) -> web.RouteDef:
    """The route for dispatched pods."""
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
