"""The metadata endpoints of clouds, asked from the machine that they are about: whether it will be taken away."""
