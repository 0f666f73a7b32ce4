"""Metadata endpoints of clouds, read from the machine itself: AWS, Google Cloud, Azure.

`cloud_provider` is their common interface, `cloud_detection` chooses one.
"""
