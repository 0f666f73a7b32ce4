"""What passes a proxy: identity and content, no cookie, no credential, no state of a browser."""

from rota.api.users import User
from rota.apiserver.subresources import relay


def test_credentials_cookies_and_impersonation_stay_here() -> None:
    sent = relay.sent(
        {
            b"authorization": b"Bearer secret",
            b"cookie": b"session=1",
            b"impersonate-user": b"root",
            b"x-forwarded-for": b"1.2.3.4",
            b"host": b"here",
            b"accept": b"application/json",
            b"content-type": b"application/json",
        }
    )
    assert sent == [("accept", "application/json"), ("content-type", "application/json")]


def test_the_user_arrives_with_groups_and_extras_and_nothing_that_servers_add() -> None:
    user = User(name="ann", uid="7", groups=("dev", "system:authenticated"), extra={"example.org/Scope": ("a", "b")})
    assert list(relay.identity(user)) == [
        ("Impersonate-User", "ann"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Extra-example.org%2FScope", "a"),
        ("Impersonate-Extra-example.org%2FScope", "b"),
    ]


def test_a_page_from_behind_has_an_origin_of_its_own_and_leaves_nothing_in_the_browser() -> None:
    kind, headers = relay.returned(
        [
            ("Content-Type", "text/html"),
            ("Set-Cookie", "session=theirs; Path=/"),
            ("Clear-Site-Data", '"*"'),
            ("Strict-Transport-Security", "max-age=0"),
            ("Access-Control-Allow-Origin", "*"),
            ("Content-Security-Policy", "default-src *"),
            ("Service-Worker-Allowed", "/"),
            ("ETag", '"1"'),
        ],
        server="https://member:6443",
        prefix="/p",
    )
    assert kind == "text/html"
    assert dict(headers) == {
        b"content-security-policy": b"sandbox",
        b"x-content-type-options": b"nosniff",
        b"cross-origin-resource-policy": b"same-origin",
        b"etag": b'"1"',
    }


def test_redirections_stay_below_the_proxy() -> None:
    def place(location: str) -> bytes | None:
        return dict(relay.returned([("Location", location)], server="https://m:1/base", prefix="/p")[1]).get(
            b"location"
        )

    assert place("/base/other?a=1") == b"/p/other?a=1"
    assert place("https://m:1/base/other") == b"/p/other"
    assert place("next") == b"next"
    assert place("https://elsewhere/") is None
    assert place("//elsewhere/x") is None
    assert place("../../../api") is None
