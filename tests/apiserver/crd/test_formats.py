import pytest

from rota.apiserver.crd import formats


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-01-01T23:59:59.5+01:00", "2024-01-01T24:00:00Z"),
        ("datetime", "2024-01-01t00:00:00z", "2024-01-01 00:00:00Z"),
        ("duration", "1h30m", "soon"),
        ("duration", "3 days", "3"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "fe80::1%eth0"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:11:22:aa:bb:cc", "00:11:22"),
        ("uuid", "550E8400-e29b-41d4-a716-446655440000", "550e8400"),
        ("uuid4", "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-31d4-a716-446655440000"),
        ("email", "me@example.com", "example.com"),
        ("hostname", "a.example.com", "-a"),
        ("uri", "https://example.com/a?b#c", "example.com"),
        ("byte", "YWJj", "YWJ"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "123-45-6789", "123456"),
        ("hexcolor", "#fff", "#ff"),
        ("rgbcolor", "rgb(0, 10,255)", "rgb(0,10,256)"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("k8s-short-name", "my-name", "My-Name"),
        ("k8s-long-name", "a.b-c", "a..b"),
    ],
)
def test_a_format_tells_good_from_bad(name: str, good: str, bad: str) -> None:
    check = formats.lookup(name)
    assert check is not None
    assert check(good)
    assert not check(bad)


def test_a_format_that_is_not_known_is_not_checked() -> None:
    assert formats.lookup("phone-number") is None
    password = formats.lookup("password")
    assert password is not None
    assert password("")
