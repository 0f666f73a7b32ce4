"""A real S3 server in this process, which checks signatures: moto's."""

import contextlib
import json
from collections.abc import Iterator

import pytest

BUCKET = "backups"
_ACCOUNT = "123456789012"


@contextlib.contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Serve S3 with one bucket; yields the environment that reaches it."""
    from moto import settings  # noqa: PLC0415 - costs a second, which tests without S3 need not spend
    from moto.core.authorization import ActionAuthenticatorMixin  # noqa: PLC0415
    from moto.iam.models import iam_backends  # noqa: PLC0415
    from moto.s3.models import s3_backends  # noqa: PLC0415
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        iam = iam_backends[_ACCOUNT]["aws"]
        iam.create_user(region_name="us-east-1", user_name="rota")
        key = iam.create_access_key("rota")
        everything = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}
        iam.put_user_policy("rota", "backups", json.dumps(everything))
        s3_backends[_ACCOUNT]["aws"].create_bucket(BUCKET, "us-east-1")
        # From here on, requests must be signed by the user.
        monkeypatch.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
        monkeypatch.setattr(ActionAuthenticatorMixin, "request_count", 0)
        host, port = server.get_host_and_port()
        yield {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": key.access_key_id,
            "AWS_SECRET_ACCESS_KEY": key.secret_access_key,
        }
    finally:
        server.stop()
        s3_backends.reset()
        iam_backends.reset()
