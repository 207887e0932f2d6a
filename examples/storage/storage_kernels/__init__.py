"""Hand-written storage: the kernels of each backend, and what a generated package is made of."""
