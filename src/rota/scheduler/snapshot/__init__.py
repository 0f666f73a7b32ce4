"""Clusters at one moment: read from an API server, or from scenario files."""
