"""Which clusters a resource goes to, and how its replicas are divided over them. Pure."""
