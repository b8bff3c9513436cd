"""Exchange with other libraries: scikit-learn's estimators, transforms of PyTorch Geometric, and
weights of other Graphormers."""
