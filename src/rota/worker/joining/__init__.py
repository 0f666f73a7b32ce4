"""How a worker becomes a member of a cluster, and stays one: `entry` comes in, `renewing` keeps certificates fresh."""
