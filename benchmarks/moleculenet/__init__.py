"""Methods compared on MoleculeNet's tables and ogbg-molhiv; run.py says how."""
