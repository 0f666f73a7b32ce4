"""What a node may do: its own objects, its pods, and what these reference."""
