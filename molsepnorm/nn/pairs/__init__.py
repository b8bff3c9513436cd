"""Encodings of atom pairs: attention biases, multiplicative gates and neighbours."""
