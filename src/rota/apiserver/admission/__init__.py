"""Rules that look beyond the object itself, one module each; `chain` puts them in order."""
