"""The order of atoms in embeddings: that of the SMILES or of the RDKit molecule that was given."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from molsepnorm.predict.forward import Embeddings

__all__ = ["InGivenOrder"]

Order = np.ndarray | None
"""int64 [N]: for each atom of a SMILES its index in the RDKit molecule, without the molecule's
explicit hydrogens; None if the SMILES itself was given."""


class InGivenOrder:
    """Yields the molecules as SMILES, and restores the order of their atoms in the embeddings.

    The parts must arrive in the order of the molecules.

    Args:
        molecules: SMILES or RDKit molecules.
    """

    def __init__(self, molecules: Iterable[Any]) -> None:
        self._molecules = molecules
        self._orders = deque[Order]()

    def __iter__(self) -> Iterator[str]:
        from molsepnorm.molecules.featurize.sdf import atoms_in_smiles

        for each in self._molecules:
            text, order = atoms_in_smiles(each)
            self._orders.append(order)
            yield text

    def restore(self, part: Embeddings) -> Embeddings:
        """Return the embeddings of the next molecules, with the atoms in the given order."""
        assert part.atoms is not None
        atoms, errors, rows = [], list(part.errors), part.molecules.copy()
        for row, (own, error) in enumerate(zip(part.atoms, part.errors, strict=True)):
            order = self._orders.popleft()
            if order is not None and error is None:
                if len(order) == len(own):
                    own = own[np.argsort(order)]
                else:
                    own, rows[row] = own[:0], np.nan
                    errors[row] = "its hydrogens hide the order of its atoms: pass a SMILES"
            atoms.append(own)
        return replace(part, molecules=rows, errors=errors, atoms=atoms)
