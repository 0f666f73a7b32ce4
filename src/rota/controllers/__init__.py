"""What keeps the API's promises in the background: one file per controller, each on `rota.client` alone."""
