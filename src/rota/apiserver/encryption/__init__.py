"""Objects at rest under lock and key: the key file, sealed values, and a store that seals and opens them."""
