"""`MolGraph` to the integers that a graph transformer needs: degrees, and one code per atom pair.

The code of a pair (i, j) stands for its hop distance and for the bonds along its canonical
shortest path; `PathVocabulary` says what each code means.

>>> import molsepnorm
>>> propene = molsepnorm.molecules.featurize.get("zinc")("C=CC")
>>> encoded = encode([propene], EncodingSpec(bond_sizes=(3,)))
>>> encoded.degrees.tolist()
[1, 2, 1]
>>> codes = encoded.pairs.reshape(3, 3)
>>> encoded.paths.describe(codes[0, 2])          # from the first atom: a double, then a single bond
'distance 2, bonds 1-0'
>>> encoded.paths.describe(codes[2, 0])          # and the other way round
'distance 2, bonds 0-1'
"""

from molsepnorm.molecules.encodings.encode import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import PathVocabulary

__all__ = ["EncodedGraphs", "EncodingSpec", "PathVocabulary", "encode"]
