"""What verbs do once their options are understood; imported only then, since asking a server takes libraries."""
