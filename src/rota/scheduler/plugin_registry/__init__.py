"""Which plugins there are: those of Rota, and third-party plugins that are loaded by entry point or path."""
