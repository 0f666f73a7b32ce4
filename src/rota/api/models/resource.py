"""Takes the place of the generated module of this name: a quantity may arrive as a JSON number."""

from rota.api.models._schema import Quantity

__all__ = ["Quantity"]
