"""Encode `MolGraph`s as integers: degrees, and for each atom pair (i, j) a code of its hop distance
and the bonds along its canonical shortest path, which a `PathVocabulary` translates.

>>> import molsepnorm
>>> propene = molsepnorm.molecules.featurize.get("zinc")("C=CC")
>>> encoded = encode([propene], EncodingSpec(bond_sizes=(3,)))
>>> encoded.degrees.tolist()
[1, 2, 1]
>>> codes = encoded.pairs.reshape(3, 3)
>>> encoded.paths.bonds_along(codes[0, 2])          # a double bond, then a single bond
[1, 0]
>>> encoded.paths.bonds_along(codes[2, 0])          # the reverse direction
[0, 1]
"""

from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import PathVocabulary

__all__ = ["EncodedGraphs", "EncodingSpec", "PathVocabulary", "encode"]
