"""Clusters that are read at one moment: from an API server, or from scenario files."""
