"""The object model on the wire: kinds, quantities, selectors, patches, validation, errors. Pure."""
