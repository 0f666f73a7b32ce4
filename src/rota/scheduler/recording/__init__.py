"""Decisions taken down with everything that they were made from, and made again later."""
