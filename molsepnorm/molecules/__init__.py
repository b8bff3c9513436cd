"""Molecules as integers: SMILES become graphs of features, graphs become codes of atom pairs."""
