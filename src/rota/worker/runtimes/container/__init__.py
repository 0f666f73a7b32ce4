"""Containers in root file systems of their own: images, bundles, and the engine that runs them."""
