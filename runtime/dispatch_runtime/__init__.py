"""The hand-written half of a generated dispatch package: devices, tensors, groups, kernels and gradient sync.

A generated package binds these to its own catalog and re-exports them; programs import that package, not this one.
"""
