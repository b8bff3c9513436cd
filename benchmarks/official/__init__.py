"""The 30 activity tables of MoleculeACE; run.py says how."""
