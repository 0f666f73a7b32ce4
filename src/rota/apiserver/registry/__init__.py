"""The objects behind the API: the rules of resourceVersion, creation, change and deletion, over the store."""
