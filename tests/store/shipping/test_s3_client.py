"""Requests to S3 are signed as AWS documents it, and settings come from the environment."""

import socket
import threading
from datetime import UTC, datetime

import pytest

from rota.kit import system
from rota.store import errors
from rota.store.shipping import s3_client
from rota.store.shipping.s3_client import Bucket, S3Client

#: The credentials of the examples in AWS' documentation of signature version 4 for S3.
DOCUMENTED = Bucket(
    name="examplebucket",
    endpoint="https://examplebucket.s3.amazonaws.com",
    region="us-east-1",
    access_key="AKIAIOSFODNN7EXAMPLE",
    secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    in_path=False,
)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}


@pytest.mark.parametrize(
    ("method", "path", "query", "more", "digest", "expected"),
    [
        (
            *("GET", "/test.txt", "", {"range": "bytes=0-9"}, EMPTY),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            *("PUT", "/test%24file.text", ""),
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            *("GET", "/", "max-keys=2&prefix=J", {}, EMPTY),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_signatures_are_those_of_the_documentation(
    method: str, path: str, query: str, more: dict[str, str], digest: str, expected: str
) -> None:
    at = datetime(2013, 5, 24, tzinfo=UTC)
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "x-amz-content-sha256": digest,
        "x-amz-date": "20130524T000000Z",
        **more,
    }
    signed = s3_client.signature(DOCUMENTED, method, path, query, headers, digest, at)
    assert signed.endswith(f"Signature={expected}")


def test_a_bucket_of_aws_is_part_of_the_host_name_unless_it_has_dots() -> None:
    found, prefix = s3_client.parse("s3://backups/rota/prod/", {**KEYS, "AWS_REGION": "eu-west-1"})
    assert (found.endpoint, found.in_path, prefix) == (
        "https://backups.s3.eu-west-1.amazonaws.com",
        False,
        "rota/prod",
    )
    dotted, _ = s3_client.parse("s3://my.backups", {**KEYS, "AWS_DEFAULT_REGION": "eu-west-1"})
    assert (dotted.endpoint, dotted.in_path) == ("https://s3.eu-west-1.amazonaws.com", True)


def test_another_endpoint_has_the_bucket_in_its_path() -> None:
    found, _ = s3_client.parse("s3://b/p", {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9000/"})
    assert (found.endpoint, found.in_path, found.region) == ("http://127.0.0.1:9000", True, "us-east-1")


@pytest.mark.parametrize(
    ("status", "code", "passes"),
    [
        (400, "RequestTimeout", True),
        (503, "SlowDown", True),
        (429, "", True),
        (400, "InvalidArgument", False),
        (403, "AccessDenied", False),
    ],
)
def test_what_may_pass_is_told_from_what_is_refused(status: int, code: str, passes: bool) -> None:
    answer = f"<Error><Code>{code}</Code><Message>m.</Message></Error>"
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            while lines.readline().strip():
                pass
            connection.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())

    server = threading.Thread(target=serve)
    server.start()
    endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
    bucket, _ = s3_client.parse("s3://b/p", {**KEYS, "AWS_ENDPOINT_URL": endpoint})
    with listener, pytest.raises(OSError if passes else s3_client.S3Refused, match=f"{status} {code}".rstrip()):
        S3Client(bucket, system.SystemClock()).get("x")
    server.join()


def test_credentials_are_taken_without_the_newline_of_their_file() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "a\n", "AWS_SECRET_ACCESS_KEY": "s\n", "AWS_SESSION_TOKEN": " t\n"}
    found, _ = s3_client.parse("s3://b/p", environment)
    assert (found.access_key, found.secret_key, found.session_token) == ("a", "s", "t")


def test_credentials_are_never_shown() -> None:
    assert "EXAMPLE" not in repr(DOCUMENTED)
    assert "EXAMPLE" not in f"{DOCUMENTED}"


@pytest.mark.parametrize(
    ("url", "environment", "message"),
    [
        ("s3:///prefix", KEYS, "is not a place in S3"),
        ("s3://user@bucket/prefix", KEYS, "is not a place in S3"),
        ("s3://bucket/prefix", {}, "set AWS_ACCESS_KEY_ID"),
        ("s3://bucket/prefix", {**KEYS, "AWS_ENDPOINT_URL": "ftp://x"}, "is no endpoint of S3"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_remedy(url: str, environment: dict[str, str], message: str) -> None:
    with pytest.raises(errors.StoreError, match=message):
        s3_client.parse(url, environment)
