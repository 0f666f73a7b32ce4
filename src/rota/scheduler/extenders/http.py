"""Extenders over HTTP: one POST per call, to the address followed by the verb.

Any response but a 200 within the deadline is a failure. As with kube-scheduler, an extender over TLS without a
configured certificate authority is not verified at all; configure one.
"""

import ssl
import tempfile
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from rota.kit.errors import UserError
from rota.scheduler.config.wire import Extender as Settings
from rota.scheduler.config.wire import ExtenderTLSConfig
from rota.scheduler.extenders.extender import ExchangeError

_OK: Final = 200
_JSON: Final = {"Content-Type": "application/json"}
#: Several times the size of 5,000 whole nodes; a longer response is an error.
_LONGEST_ANSWER: Final = 256 << 20


class TlsError(UserError):
    """The TLS files of an extender cannot be used."""


class HttpExchange:
    """An `Exchange` with one HTTP server. Made anywhere, used within one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._base: Final = settings.url_prefix.rstrip("/")
        self._timeout: Final = aiohttp.ClientTimeout(total=settings.http_timeout.total_seconds())
        self._tls: Final = _context(settings)
        self._server_name: Final = settings.tls_config.server_name if settings.tls_config else ""
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, verb: str, body: bytes) -> bytes:
        """See `Exchange.ask`."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=True if self._tls is None else self._tls, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        try:
            async with self._session.post(
                URL(f"{self._base}/{verb}", encoded=True),
                data=body,
                headers=_JSON,
                timeout=self._timeout,
                allow_redirects=False,
                server_hostname=self._server_name or None,
            ) as response:
                if response.status != _OK:
                    raise ExchangeError(f"HTTP status {response.status}")
                return await _body(response)
        except TimeoutError as error:
            raise ExchangeError(f"no answer within {self._timeout.total:g} s") from error
        except aiohttp.ClientError as error:
            raise ExchangeError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error

    async def close(self) -> None:
        """See `Exchange.close`."""
        if self._session is not None:
            await self._session.close()


async def _body(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    length = 0
    async for part in response.content.iter_any():
        length += len(part)
        if length > _LONGEST_ANSWER:
            raise ExchangeError(f"the answer is longer than {_LONGEST_ANSWER >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def _context(settings: Settings) -> ssl.SSLContext | None:
    tls = settings.tls_config or ExtenderTLSConfig()
    if not settings.enable_https and settings.tls_config is None:
        return None
    try:
        authorities = _text(tls.ca_data, tls.ca_file)
        context = ssl.create_default_context(cadata=authorities.decode() if authorities else None)
        if tls.insecure or (settings.enable_https and not authorities):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate, key = _text(tls.cert_data, tls.cert_file), _text(tls.key_data, tls.key_file)
        if certificate:
            _identify(context, certificate + b"\n" + key)
    except (OSError, ValueError) as error:
        raise TlsError(f"the TLS material for extender {settings.url_prefix} cannot be used: {error}") from error
    return context


def _text(data: bytes, file: str) -> bytes:
    """Data overrides a file, as in kube-scheduler."""
    return data or (Path(file).read_bytes() if file else b"")


def _identify(context: ssl.SSLContext, pem: bytes) -> None:
    # The ssl module takes files only; this private file is deleted at once.
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        path = Path(folder, "extender.pem")
        path.touch(mode=0o600)
        path.write_bytes(pem)
        context.load_cert_chain(path)
