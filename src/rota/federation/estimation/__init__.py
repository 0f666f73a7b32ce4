"""Free capacity of a member cluster: by its summary, by its resource models, or by its nodes. Pure."""
