"""Custom kinds: validation of CustomResourceDefinitions, and schemas applied to custom objects.

`crd_controller` (one level up) watches the definitions and feeds `kind_catalog`. Everything else here is pure.
"""
