"""Scenarios of `rota federation decide`, one module per category: from the members of a line to its decision."""
