"""The rules of kinds: defaults, preparation and validation, one module for each family; `lookup` finds them."""
