"""Every backend keeps every guarantee of `rota.testing.store_contract`."""

from rota.testing.store_contract import StoreContract


class TestStore(StoreContract):
    pass
