"""Exchange with other libraries: PyTorch Geometric transforms and weights of other Graphormers."""
