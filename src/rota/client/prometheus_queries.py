"""Asks a Prometheus: instant queries, with a limit of time and of size, and a token that is read for each request."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from rota.client import prometheus_samples
from rota.client.prometheus_samples import AnswerError

_ANSWER_S: Final = 30.0
_MOST_BYTES: Final = 256 * 2**20
_OK: Final = 200


class PrometheusQueries:
    """One Prometheus."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, token_file: Path | None = None) -> None:
        """`url` is the address of its web page."""
        self._session: Final = session
        self.url: Final = f"{url.rstrip('/')}/api/v1/query"
        self._token_file: Final = token_file

    async def vector(self, query: str) -> list[tuple[Mapping[str, str], float]]:
        """The labels and values of an instant query; `AnswerError` if there is no such answer."""
        try:
            return prometheus_samples.vector(await self._answer(query))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AnswerError(f"{type(error).__name__}: {error}") from error

    async def _answer(self, query: str) -> Any:
        headers = {}
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {self._token_file.read_text().strip()}"
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        async with self._session.post(self.url, data={"query": query}, headers=headers, timeout=timeout) as answer:
            body = await _read(answer)
            if answer.status != _OK:
                raise AnswerError(f"HTTP {answer.status}: {body[:200].decode(errors='replace')}")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise AnswerError(str(error)) from None


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body; a stream gives no more at a time than has arrived."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise AnswerError(f"the answer has more than {_MOST_BYTES} bytes")
    return bytes(body)
