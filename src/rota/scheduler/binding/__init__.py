"""The binding cycle: Permit, PreBind, bind requests to the API server, volume binding, and the dispatch mode of bound
pods."""
