"""Encryption at rest: the key file, encrypted values, and a store that encrypts and decrypts them."""
