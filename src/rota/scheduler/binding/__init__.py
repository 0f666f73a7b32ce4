"""The binding cycle: PreBind, bind requests to the API server, volume binding, and the dispatch mode of bound
pods."""
