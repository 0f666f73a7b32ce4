"""A client of the S3 API with the four requests that backups need: put, get, delete and list.

Requests are signed with AWS' signature version 4 (the algorithm `AWS4-HMAC-SHA256`, with the hash of the body). The
endpoint, the region and the credentials come from the environment variables that AWS' own tools read.
"""

import hashlib
import hmac
import http.client
import ssl
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from rota.kit import clock
from rota.store import errors

SCHEME: Final = "s3://"
_TIMEOUT_S: Final = 60.0
_PIECE_BYTES: Final = 1 << 20
#: The API takes no larger object in one request.
_MOST_BYTES: Final = 5 * 1024**3
_UNSIGNED: Final = "-_.~"
_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_TOO_MANY: Final = 429
_REQUEST_TIMEOUT: Final = 408
#: Errors that pass although their status says that the request is wrong: of a slow upload, and of another request.
_PASSING: Final = frozenset({"RequestTimeout", "OperationAborted"})


class S3Unavailable(OSError):
    """The server could not be reached, or failed; another attempt may work."""


class S3Refused(errors.StoreError):
    """The server refused a request."""


class S3Missing(S3Refused):
    """There is no object of this name."""


class Bucket(Struct, frozen=True, kw_only=True):
    """A bucket, and how to reach it."""

    name: str
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    session_token: str = ""
    ca_file: str = ""
    #: Whether the bucket is the first part of the path, as most servers other than AWS expect, or of the host name.
    in_path: bool = True

    def __repr__(self) -> str:
        # Without the credentials.
        return f"Bucket({self.name!r}, {self.endpoint!r})"


def parse(url: str, environment: Mapping[str, str]) -> tuple[Bucket, str]:
    """The bucket of `s3://bucket/prefix` with the settings of the environment, and the prefix."""
    name, _, prefix = url.removeprefix(SCHEME).partition("/")
    if not url.startswith(SCHEME) or not name or any(letter in name for letter in "?#@:"):
        raise errors.BadAddress(f"{url!r} is not a place in S3", "write s3://bucket/prefix")
    # A variable from a file or a Secret often ends in a newline, and a header with one is an error that shows it.
    access, secret, token = (environment.get(name, "").strip() for name in _CREDENTIALS)
    if not access or not secret:
        raise errors.StoreError(
            f"there are no credentials for {url}", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    # A wildcard certificate covers one label, so a bucket with dots cannot be part of the host name.
    in_path = bool(endpoint) or "." in name
    if not endpoint:
        host = f"s3.{region}.amazonaws.com"
        endpoint = f"https://{host}" if in_path else f"https://{name}.{host}"
    if urllib.parse.urlsplit(endpoint).scheme not in {"http", "https"}:
        raise errors.BadAddress(f"{endpoint!r} is no endpoint of S3", "set AWS_ENDPOINT_URL to http(s)://host[:port]")
    bucket = Bucket(
        name=name,
        endpoint=endpoint.rstrip("/"),
        region=region,
        access_key=access,
        secret_key=secret,
        session_token=token,
        ca_file=environment.get("AWS_CA_BUNDLE", ""),
        in_path=in_path,
    )
    return bucket, prefix.strip("/")


def signature(
    bucket: Bucket, method: str, path: str, query: str, headers: Mapping[str, str], body_sha256: str, at: datetime
) -> str:
    """The Authorization header of a request. `path` and `query` are encoded, `headers` have lower-case names."""
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        (method, path, query, *(f"{name}:{headers[name].strip()}" for name in sorted(headers)), "", names, body_sha256)
    )
    day = at.strftime("%Y%m%d")
    scope = f"{day}/{bucket.region}/s3/aws4_request"
    text = "\n".join(
        ("AWS4-HMAC-SHA256", at.strftime("%Y%m%dT%H%M%SZ"), scope, hashlib.sha256(canonical.encode()).hexdigest())
    )
    key = f"AWS4{bucket.secret_key}".encode()
    for part in (day, bucket.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = hmac.digest(key, text.encode(), "sha256").hex()
    return f"AWS4-HMAC-SHA256 Credential={bucket.access_key}/{scope},SignedHeaders={names},Signature={signed}"


class S3Client:
    """Requests to one bucket. Safe for several threads: each request has its own connection."""

    def __init__(self, bucket: Bucket, time: clock.Clock) -> None:
        self._bucket: Final = bucket
        self._time: Final = time
        self._split: Final = urllib.parse.urlsplit(bucket.endpoint)
        self._tls: Final = (
            ssl.create_default_context(cafile=bucket.ca_file or None) if self._split.scheme == "https" else None
        )

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object; it is durable when this returns."""
        self._request("PUT", key, body=body)

    def get(self, key: str) -> bytes:
        """A small object."""
        return self._request("GET", key)

    def download(self, key: str, path: Path) -> None:
        """Write an object to a file that only its owner may read."""
        self._request("GET", key, into=path)

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is left so."""
        self._request("DELETE", key)

    def list(self, prefix: str) -> Iterator[str]:
        """The names of the objects that begin with a prefix, in order."""
        token = ""
        while True:
            query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
            answer = self._parsed(self._request("GET", "", query=query))
            yield from (key.text or "" for key in answer.iterfind("{*}Contents/{*}Key"))
            token = answer.findtext("{*}NextContinuationToken") or ""
            if answer.findtext("{*}IsTruncated") != "true" or not token:
                return

    def _parsed(self, answer: bytes) -> ET.Element:
        try:
            # The answer is from the server that keeps the backups; expat bounds the expansion of entities.
            return ET.fromstring(answer)  # noqa: S314
        except ET.ParseError as problem:
            raise S3Unavailable(f"{self._bucket.endpoint} does not answer as S3 does: {problem}") from problem

    def _request(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | Path = b"",
        into: Path | None = None,
    ) -> bytes:
        bucket = self._bucket
        path = f"/{bucket.name}/{key}" if bucket.in_path else f"/{key}"
        encoded = urllib.parse.quote(self._split.path + path, safe="/" + _UNSIGNED)
        arguments = "&".join(
            f"{urllib.parse.quote(name, safe=_UNSIGNED)}={urllib.parse.quote(value, safe=_UNSIGNED)}"
            for name, value in sorted((query or {}).items())
        )
        digest, size = _measured(body)
        at = datetime.fromtimestamp(self._time.now(), UTC)
        headers = {
            "host": self._split.netloc,
            "x-amz-content-sha256": digest,
            "x-amz-date": at.strftime("%Y%m%dT%H%M%SZ"),
            **({"x-amz-security-token": bucket.session_token} if bucket.session_token else {}),
        }
        headers["authorization"] = signature(bucket, method, encoded, arguments, headers, digest, at)
        headers["content-length"] = str(size)
        try:
            return self._exchange(method, f"{encoded}?{arguments}" if arguments else encoded, headers, body, into)
        except http.client.HTTPException as problem:
            raise S3Unavailable(f"{bucket.endpoint} does not answer: {problem!r}") from problem
        except ssl.SSLCertVerificationError as problem:
            raise errors.StoreError(
                f"the certificate of {bucket.endpoint} is not trusted: {problem.verify_message}",
                "name the file of its authority in AWS_CA_BUNDLE",
            ) from problem

    def _exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | Path, into: Path | None
    ) -> bytes:
        connection = self._connection()
        try:
            if isinstance(body, Path):
                with body.open("rb") as file:
                    connection.request(method, target, file, dict(headers))
                    answer = connection.getresponse()
            else:
                connection.request(method, target, body, dict(headers))
                answer = connection.getresponse()
            if answer.status >= http.client.MULTIPLE_CHOICES:
                raise self._refusal(method, target, answer.status, answer.read())
            if into is None:
                return answer.read()
            _save(answer, into)
            return b""
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._split.hostname or "", self._split.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)

    def _refusal(self, method: str, target: str, status: int, body: bytes) -> OSError | errors.StoreError:
        try:
            answer = ET.fromstring(body)  # noqa: S314 - as in _parsed
            code, says = answer.findtext("{*}Code") or "", answer.findtext("{*}Message") or ""
        except ET.ParseError:
            code, says = "", ""
        why = f"{self._bucket.endpoint} answers {method} {target.partition('?')[0]} with {status} {code}".rstrip()
        if status >= http.client.INTERNAL_SERVER_ERROR or status in {_TOO_MANY, _REQUEST_TIMEOUT} or code in _PASSING:
            return S3Unavailable(why)
        if status == http.client.NOT_FOUND and code != "NoSuchBucket":
            return S3Missing(why)
        remedy = f"{says.rstrip('.')}; " if says else ""
        return S3Refused(why, f"{remedy}check the bucket, AWS_REGION and the rights of AWS_ACCESS_KEY_ID")


def _measured(body: bytes | Path) -> tuple[str, int]:
    """The SHA-256 and the size of a body."""
    if not isinstance(body, Path):
        return hashlib.sha256(body).hexdigest(), len(body)
    size = body.stat().st_size
    if size > _MOST_BYTES:
        raise errors.StoreError(
            f"{body.name} has {size:,} bytes, more than S3 takes in one request", "back this store up to a folder"
        )
    with body.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), size


def _save(answer: http.client.HTTPResponse, path: Path) -> None:
    """Write a body to a file, which appears when it is complete."""
    unready = path.with_name(f".{path.name}.part")
    unready.touch(mode=0o600)
    with unready.open("wb") as file:
        while piece := answer.read(_PIECE_BYTES):
            file.write(piece)
    if answer.length:
        raise S3Unavailable(f"the answer ended {answer.length} bytes early")
    unready.replace(path)
