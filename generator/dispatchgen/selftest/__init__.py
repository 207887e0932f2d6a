"""Whether a green `check` can be trusted: gaps are made on purpose, and each has to be found where it is."""
