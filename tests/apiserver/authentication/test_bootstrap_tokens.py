"""Bootstrap tokens: only Secrets of the right form are accepted."""

from typing import Any

import pytest
from tests.apiserver.authentication.harness import Entrance

SECRETS = "/api/v1/namespaces/kube-system/secrets"
TOKEN = "abcdef.0123456789abcdef"


def secret(**changes: str | None) -> dict[str, Any]:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "expiration": "2023-11-14T23:13:20Z",
        "auth-extra-groups": "system:bootstrappers:rota:default-node-token",
    }
    kept = {key: value for key, value in {**data, **changes}.items() if value is not None}
    return {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "stringData": kept}


async def test_a_join_token_signs_in_as_itself(entrance: Entrance) -> None:
    await entrance.create(SECRETS, secret())
    assert await entrance.user(TOKEN) == {
        "username": "system:bootstrap:abcdef",
        "groups": [
            "system:bootstrappers",
            "system:bootstrappers:rota:default-node-token",
            "system:authenticated",
        ],
    }


async def test_a_join_token_ends(entrance: Entrance) -> None:
    await entrance.create(SECRETS, secret())
    entrance.clock.step_wall(3599)
    assert not await entrance.refuses(TOKEN)
    await entrance.clock.advance(12)
    assert await entrance.refuses(TOKEN)


async def test_a_join_token_without_an_end_goes_on(entrance: Entrance) -> None:
    await entrance.create(SECRETS, secret(expiration=None))
    entrance.clock.step_wall(86_400)
    assert not await entrance.refuses(TOKEN)


async def test_a_deleted_join_token_is_refused(entrance: Entrance) -> None:
    await entrance.create(SECRETS, secret())
    assert not await entrance.refuses(TOKEN)
    await entrance.ask("DELETE", f"{SECRETS}/bootstrap-token-abcdef")
    await entrance.clock.advance(11)
    assert await entrance.refuses(TOKEN)


@pytest.mark.parametrize(
    "changes",
    [
        {"token-id": "ghijkl"},
        {"token-secret": "fedcba9876543210"},
        {"token-secret": None},
        {"token-secret": ""},
        {"usage-bootstrap-authentication": "false"},
        {"usage-bootstrap-authentication": None},
        {"expiration": "yesterday"},
        {"auth-extra-groups": "system:masters"},
        {"auth-extra-groups": "system:bootstrappers:good,system:masters"},
    ],
)
async def test_what_is_not_quite_a_join_token_is_refused(changes: dict[str, Any], entrance: Entrance) -> None:
    await entrance.create(SECRETS, secret(**changes))
    assert await entrance.refuses(TOKEN)


async def test_a_secret_of_another_type_is_no_join_token(entrance: Entrance) -> None:
    await entrance.create(SECRETS, {**secret(), "type": "Opaque"})
    assert await entrance.refuses(TOKEN)


async def test_join_tokens_live_in_kube_system_only(entrance: Entrance) -> None:
    await entrance.create("/api/v1/namespaces/default/secrets", secret())
    assert await entrance.refuses(TOKEN)


@pytest.mark.parametrize(
    "token", ["abcdef.", ".0123456789abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde\n"]
)
async def test_only_the_exact_form_is_a_join_token(token: str, entrance: Entrance) -> None:
    await entrance.create(SECRETS, secret())
    assert await entrance.refuses(token)
