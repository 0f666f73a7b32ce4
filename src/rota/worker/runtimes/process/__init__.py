"""Containers as ordinary processes of this machine: what needs no images and no privileges."""
