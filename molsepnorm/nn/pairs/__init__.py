"""Encodings of atom pairs: attention biases and neighbours."""
