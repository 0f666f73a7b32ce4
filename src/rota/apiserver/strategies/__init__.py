"""Strategies: defaults, preparation and validation of kinds, one module for each family; `lookup` finds them.

Rules that read other objects are in `admission`; storing is in `registry`.
"""
