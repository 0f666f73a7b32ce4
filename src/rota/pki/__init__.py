"""Keys and certificates: the authority of a cluster, what it issues, and how that stays fresh.

Nothing here knows the API or the store. Times come in as seconds since 1970; PEM and DER go in and out.
"""
