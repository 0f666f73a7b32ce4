"""Conversion webhooks of CustomResourceDefinitions: reviews, and calls that convert objects."""
