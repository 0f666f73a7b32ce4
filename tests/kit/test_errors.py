from rota.kit.errors import UserError


def test_an_error_is_one_line_that_names_the_remedy_and_hides_passwords() -> None:
    error = UserError("cannot reach postgresql://rota:s3cret@db/rota", "start the server or correct --store")
    assert str(error) == "cannot reach postgresql://rota:***@db/rota; start the server or correct --store"
    assert str(UserError("no such file")) == "no such file"
