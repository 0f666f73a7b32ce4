"""Service account tokens: issuing, claims, and everything that invalidates them."""

import base64
import hmac
import json
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.authentication.harness import Entrance

from rota.apiserver.authentication import account_tokens, jwts
from rota.apiserver.authentication.account_tokens import DEFAULT_ISSUER, Signer
from rota.apiserver.authentication.tokens import Rejected
from rota.pki import keys

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
async def robot(entrance: Entrance) -> Any:
    return await entrance.create(ACCOUNTS, {"metadata": {"name": "robot"}})


async def request_token(entrance: Entrance, spec: Mapping[str, Any] | None = None, *, account: str = "robot") -> Any:
    answer = await entrance.ask("POST", f"{ACCOUNTS}/{account}/token", {"spec": spec or {}})
    assert answer.code == 201, answer
    return answer.json


async def token_for(entrance: Entrance, spec: Mapping[str, Any] | None = None) -> str:
    token: str = (await request_token(entrance, spec))["status"]["token"]
    return token


def claims(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def pod(name: str = "p", account: str = "robot") -> dict[str, Any]:
    spec = {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_token_signs_its_account_in(entrance: Entrance, robot: Any) -> None:
    user = await entrance.user(await token_for(entrance))
    assert user["username"] == "system:serviceaccount:default:robot"
    assert user["uid"] == robot["metadata"]["uid"]
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    (credential,) = user["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("JTI=")


async def test_a_token_says_what_upstreams_say(entrance: Entrance, robot: Any) -> None:
    made = await request_token(entrance, {"audiences": ["vault"], "expirationSeconds": 7200})
    assert made["kind"] == "TokenRequest"
    assert made["status"]["expirationTimestamp"] == "2023-11-15T00:13:20Z"
    said = claims(made["status"]["token"])
    now = int(entrance.clock.now())
    assert said.pop("jti")
    assert said == {
        "iss": DEFAULT_ISSUER,
        "sub": "system:serviceaccount:default:robot",
        "aud": ["vault"],
        "iat": now,
        "nbf": now,
        "exp": now + 7200,
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "robot", "uid": robot["metadata"]["uid"]},
        },
    }


async def test_a_token_for_others_does_not_get_in_here(entrance: Entrance, robot: Any) -> None:
    assert await entrance.refuses(await token_for(entrance, {"audiences": ["vault"]}))


async def test_others_can_have_their_tokens_reviewed(entrance: Entrance, robot: Any) -> None:
    token = await token_for(entrance, {"audiences": ["vault", "other"]})
    review = await entrance.create(REVIEWS, {"spec": {"token": token, "audiences": ["vault"]}})
    assert review["status"]["authenticated"] is True
    assert review["status"]["audiences"] == ["vault"]
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:robot"
    assert "system:authenticated" in review["status"]["user"]["groups"]


async def test_a_review_of_a_token_for_another_audience_says_no(entrance: Entrance, robot: Any) -> None:
    token = await token_for(entrance, {"audiences": ["vault"]})
    review = await entrance.create(REVIEWS, {"spec": {"token": token}})
    assert review["status"] == {"user": {}, "error": "invalid bearer token"}


async def test_a_review_needs_a_token(entrance: Entrance) -> None:
    answer = await entrance.ask("POST", REVIEWS, {"spec": {}})
    assert (answer.code, answer.json["message"]) == (400, "token is required for TokenReview in authentication")


async def test_a_token_ends_when_it_says(entrance: Entrance, robot: Any) -> None:
    token = await token_for(entrance, {"expirationSeconds": 600})
    entrance.clock.step_wall(599)
    assert not await entrance.refuses(token)
    await entrance.clock.advance(12)  # valid tokens are cached for ten seconds
    assert await entrance.refuses(token)


async def test_a_token_ends_with_its_account(entrance: Entrance, robot: Any) -> None:
    token = await token_for(entrance)
    assert not await entrance.refuses(token)
    await entrance.ask("DELETE", f"{ACCOUNTS}/robot")
    await entrance.clock.advance(11)
    assert await entrance.refuses(token)


async def test_an_account_made_again_does_not_bring_old_tokens_back(entrance: Entrance, robot: Any) -> None:
    token = await token_for(entrance)
    await entrance.ask("DELETE", f"{ACCOUNTS}/robot")
    await entrance.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    assert await entrance.refuses(token)
    assert not await entrance.refuses(await token_for(entrance))


async def test_a_pods_token_names_the_pod_and_ends_with_it(entrance: Entrance, robot: Any) -> None:
    made = await entrance.create(PODS, pod())
    token = await token_for(entrance, {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}})
    user = await entrance.user(token)
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]
    await entrance.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    await entrance.clock.advance(11)
    assert await entrance.refuses(token)


async def test_a_pods_token_names_its_node_for_information(entrance: Entrance, robot: Any) -> None:
    room = {"allocatable": {"pods": "10"}}
    node = await entrance.create("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": room})
    placed = pod()
    placed["spec"]["nodeName"] = "n1"
    await entrance.create(PODS, placed)
    token = await token_for(entrance, {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}})
    assert claims(token)["kubernetes.io"]["node"] == {"name": "n1", "uid": node["metadata"]["uid"]}
    await entrance.ask("DELETE", "/api/v1/nodes/n1")
    assert (await entrance.user(token))["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]


@pytest.mark.parametrize("kind", ["Secret", "Node"])
async def test_a_token_ends_with_what_it_is_bound_to(kind: str, entrance: Entrance, robot: Any) -> None:
    path = SECRETS if kind == "Secret" else "/api/v1/nodes"
    await entrance.create(path, {"metadata": {"name": "x"}})
    token = await token_for(entrance, {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": "x"}})
    assert not await entrance.refuses(token)
    await entrance.ask("DELETE", f"{path}/x")
    await entrance.clock.advance(11)
    assert await entrance.refuses(token)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 1 << 33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "gone"}}, 404, 'pods "gone" not found'),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "../p"}}, 404, 'pods "../p" not found'),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1"}}, 400, "Name parameter required."),
        (
            {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "others"}},
            400,
            'cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.',
        ),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "another"}},
            409,
            "the UID in the bound object reference (another) does not match the UID in record",
        ),
    ],
)
async def test_requests_that_cannot_be_granted(
    spec: Any, code: int, words: str, entrance: Entrance, robot: Any
) -> None:
    await entrance.create(ACCOUNTS, {"metadata": {"name": "other"}})
    await entrance.create(PODS, pod())
    await entrance.create(PODS, pod("others", account="other"))
    answer = await entrance.ask("POST", f"{ACCOUNTS}/robot/token", {"spec": spec})
    assert answer.code == code, answer
    assert words in answer.json["message"]


async def test_an_account_that_does_not_exist_gets_no_token(entrance: Entrance) -> None:
    answer = await entrance.ask("POST", f"{ACCOUNTS}/nobody/token", {"spec": {}})
    assert (answer.code, answer.json["message"]) == (404, 'serviceaccounts "nobody" not found')


async def test_a_dry_run_is_answered_as_any_other_request(entrance: Entrance, robot: Any) -> None:
    """As upstream: nothing is written for a token, so a dry run is the same."""
    made = await entrance.create(f"{ACCOUNTS}/robot/token?dryRun=All", {"spec": {}})
    assert not await entrance.refuses(made["status"]["token"])


# Forgeries


def forged(entrance: Entrance, robot: Any, **changes: Any) -> dict[str, Any]:
    """Valid claims with some changes."""
    said = account_tokens.claims(
        robot,
        issuer=DEFAULT_ISSUER,
        audiences=(DEFAULT_ISSUER,),
        now=entrance.clock.now(),
        lifetime_s=3600,
        bound={},
    )
    return {name: value for name, value in {**said, **changes}.items() if value is not None}


async def test_the_forgers_tools_work(entrance: Entrance, robot: Any) -> None:
    """If these claims were refused for another reason, the tests below would prove nothing."""
    assert not await entrance.refuses(Signer(entrance.settings.signing_key).sign(forged(entrance, robot)))


async def test_a_token_of_a_foreign_key_is_refused(entrance: Entrance, robot: Any) -> None:
    assert await entrance.refuses(Signer(keys.generate()).sign(forged(entrance, robot)))


async def test_a_token_without_a_signature_is_refused(entrance: Entrance, robot: Any) -> None:
    said = forged(entrance, robot)
    for name in ("none", "None", "NONE", ""):
        header = _encoded({"alg": name, "typ": "JWT"})
        assert await entrance.refuses(f"{header}.{_encoded(said)}.")
    assert await entrance.refuses(jwt.encode(said, "", algorithm="none"))


async def test_the_public_key_is_no_password(entrance: Entrance, robot: Any) -> None:
    public = Signer(entrance.settings.signing_key).public_key
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    signed = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(forged(entrance, robot))}"
    signature = base64.urlsafe_b64encode(hmac.digest(pem, signed.encode(), "sha256")).rstrip(b"=").decode()
    assert await entrance.refuses(f"{signed}.{signature}")


async def test_a_token_whose_claims_were_changed_is_refused(entrance: Entrance, robot: Any) -> None:
    token = await token_for(entrance)
    header, body, signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(body + "=="))
    said["sub"] = "system:serviceaccount:kube-system:robot"
    assert await entrance.refuses(f"{header}.{_encoded(said)}.{signature}")


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://elsewhere"},
        {"aud": "https://elsewhere"},
        {"aud": None},
        {"aud": [[]]},
        {"exp": 1},
        {"exp": None},
        {"exp": "2099-01-01"},
        {"nbf": 1_900_000_000},
        {"nbf": "soon"},
        {"sub": "system:admin"},
        {"sub": "system:serviceaccount:kube-system:robot"},
        {"jti": None},
        {"kubernetes.io": None},
        {"kubernetes.io": "default"},
        {"kubernetes.io": {"namespace": "default"}},
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot"}}},
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "another"}}},
        {"kubernetes.io": {"namespace": "../default", "serviceaccount": {"name": "robot", "uid": "x"}}},
    ],
)
async def test_invalid_claims_are_refused(changes: Any, entrance: Entrance, robot: Any) -> None:
    """Even with the right signature, which only a bug could give them."""
    assert await entrance.refuses(Signer(entrance.settings.signing_key).sign(forged(entrance, robot, **changes)))


async def test_others_can_check_signatures_by_the_published_key(entrance: Entrance, robot: Any) -> None:
    configuration = (await entrance.ask("GET", "/.well-known/openid-configuration")).json
    assert configuration["issuer"] == DEFAULT_ISSUER
    assert configuration["jwks_uri"].endswith("/openid/v1/jwks")
    (published,) = (await entrance.ask("GET", "/openid/v1/jwks")).json["keys"]
    assert "d" not in published, "the private part stays private"
    token = await token_for(entrance)
    assert jwt.get_unverified_header(token)["kid"] == published["kid"]
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": False}
    said = jwt.decode(token, jwt.PyJWK(published), algorithms=["ES256"], options=options)
    assert said["sub"] == "system:serviceaccount:default:robot"


SIGNER = Signer(keys.generate())
TOKEN = SIGNER.sign({"iss": DEFAULT_ISSUER, "sub": "system:serviceaccount:default:robot", "exp": 2_000_000_000})


@given(at=st.integers(0, len(TOKEN) - 1), letter=st.characters(max_codepoint=255))
def test_a_token_with_a_wrong_letter_is_refused_or_says_the_same(at: int, letter: str) -> None:
    try:
        said = SIGNER.verified(TOKEN[:at] + letter + TOKEN[at + 1 :])
    except Rejected:
        return
    assert said == SIGNER.verified(TOKEN)


@given(st.text(max_size=200))
def test_garbage_is_no_token(garbage: str) -> None:
    assert jwts.unverified_issuer(garbage) is None
    with pytest.raises(Rejected):
        SIGNER.verified(garbage)


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
