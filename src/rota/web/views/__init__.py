"""What the pages show, as pure reducers: changes of objects in, a beginning and its changes out."""
