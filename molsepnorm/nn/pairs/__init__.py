"""Encodings of atom pairs: attention biases, multiplicative gates, pair vectors and neighbours."""
