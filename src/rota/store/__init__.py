"""The versioned log of objects: one revision order, compare-and-swap, gap-free watches, four backends."""
