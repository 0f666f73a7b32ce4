"""OpenAPI documents, version 2 and version 3, from the models and the definitions of custom kinds."""
