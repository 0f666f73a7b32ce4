"""The options of `rota up` that say who may sign in."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rota.apiserver.authentication.oidc_provider import Provider, ProviderError
from rota.cli import sign_in_options

ROTA = str(Path(sys.executable).with_name("rota"))
PROVIDER = ["--oidc-issuer-url", "https://id.example", "--oidc-client-id", "rota"]


def chosen(*arguments: str) -> tuple[Provider, ...]:
    found: list[tuple[Provider, ...]] = []

    @click.command()
    @sign_in_options.sign_in_options
    def command(*, token_file: Path | None, **oidc: Any) -> None:
        found.append(sign_in_options.providers(oidc))

    done = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return found[0]


def test_no_provider_is_trusted_by_default() -> None:
    assert chosen() == ()


def test_a_provider_is_named_as_upstream_names_it(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    (provider,) = chosen(
        *PROVIDER,
        *("--oidc-username-claim", "email", "--oidc-username-prefix", "o:"),
        *("--oidc-groups-claim", "groups", "--oidc-groups-prefix", "g:"),
        *("--oidc-required-claim", "hd=example.com", "--oidc-required-claim", "a=b=c"),
        *("--oidc-signing-algs", "RS256,ES256", "--oidc-ca-file", str(tmp_path / "ca.crt")),
    )
    assert provider == Provider(
        issuer_url="https://id.example",
        client_id="rota",
        username_claim="email",
        username_prefix="o:",
        groups_claim="groups",
        groups_prefix="g:",
        required_claims={"hd": "example.com", "a": "b=c"},
        signing_algorithms=("RS256", "ES256"),
        certificate_authority=b"PEM",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (PROVIDER[:2], "go together"),
        (PROVIDER[2:], "go together"),
        ([*PROVIDER, "--oidc-required-claim", "hd"], "is not KEY=VALUE"),
    ],
)
def test_half_a_provider_is_a_mistake(arguments: list[str], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        chosen(*arguments)


def test_an_unsafe_provider_is_refused() -> None:
    with pytest.raises(ProviderError, match="https"):
        chosen("--oidc-issuer-url", "http://id.example", "--oidc-client-id", "rota")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--token-auth-file", "missing.csv"], "cannot read the token file missing.csv"),
        (["--token-auth-file", "short.csv"], "line 1 of short.csv names no token and user"),
        (["--ca-dir", "nowhere"], "ca.crt: No such file or directory; name a folder with ca.crt and ca.key"),
        (PROVIDER[:2], "--oidc-issuer-url and --oidc-client-id go together"),
        ([*PROVIDER, "--oidc-signing-algs", "none"], "none is no algorithm that tokens may be signed with"),
    ],
)
def test_a_server_with_wrong_options_does_not_start(options: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("only-a-token\n")
    done = subprocess.run(
        [ROTA, "up", "--store", "memory://", "--data", "data", "--port", "0", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
