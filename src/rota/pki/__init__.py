"""Keys and certificates: a cluster's certificate authority, the certificates that it issues, and their renewal.

Nothing here knows the API or the store. Times are seconds since 1970; keys and certificates are PEM or DER.
"""
