"""How much more a member cluster can hold: by its summary, by its resource models, or by its nodes. Pure."""
