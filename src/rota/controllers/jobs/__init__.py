"""Jobs: pods that run to their end, counted once each, however often whoever counts is interrupted."""
