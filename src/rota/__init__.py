"""Rota: a scheduler for any work on any machines."""

__version__ = "0.1.0"
