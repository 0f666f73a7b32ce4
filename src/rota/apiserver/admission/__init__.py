"""Admission: rules that depend on more than the object itself, one module each; `chain` has their order."""
