"""What keeps a server standing under load: seats for requests, fairly shared; rates, time limits, bounded streams."""
