"""Flow control: seats for requests with fair sharing, rates per user, time limits, and limits on streams."""
