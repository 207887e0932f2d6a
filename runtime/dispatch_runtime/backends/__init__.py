"""The kernels: one class per backend, one instance per device, torch tensors in and out."""
