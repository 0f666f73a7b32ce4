"""From a placement to a bound pod: Permit, PreBind, bind requests to the API server, volume binding, dispatch mode."""
