"""`encoded_rows`: the store of the molecules that rows of SMILES hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from molsepnorm.data.datasets.cached import cached_standard, cached_store, with_reasons
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Rejected
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import DataError
from molsepnorm.files.digests import short_digest
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph


def encoded_rows(
    smiles: Sequence[str],
    config: DataConfig,
    encoding: EncodingSpec,
    location: Callable[[int], str],
) -> tuple[GraphStore, Sequence[str]]:
    """Return the encoded molecules, from the cache if they were encoded before, and the standard
    form of every SMILES.

    Args:
        smiles: SMILES of every row.
        config: standardisation, featuriser, and what is done with an invalid SMILES.
        encoding: the encoding of the molecules.
        location: returns the file and the position of a row.

    Raises:
        DataError: a row cannot be read and `on_invalid` is fail.
        StorageError: the cache cannot be written.
    """
    rejected: list[Rejected] = []
    standard = cached_standard(smiles, config.standardize)
    store = cached_store(
        _key(smiles, standard),
        config.featurizer,
        encoding,
        _molecules(smiles, standard, config, rejected, location),
        rejected,
        len(smiles),
    )
    if store.rejected and config.on_invalid == "fail":  # they were skipped when it was made
        raise _refusal(store.rejected[0], location(store.rejected[0].row))
    return store, standard


def _key(smiles: Sequence[str], standard: Sequence[str]) -> str:
    """Return the key of a store: a digest of the SMILES, of their standard forms if any, of the
    reasons of rows without a SMILES, and of the version of RDKit, which reads them."""
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    texts = [smiles] if standard is smiles else [smiles, standard]
    return short_digest(json.dumps(list(map(with_reasons, texts))), RDKIT_VERSION)


def _molecules(
    smiles: Sequence[str],
    standard: Sequence[str],
    config: DataConfig,
    rejected: list[Rejected],
    location: Callable[[int], str],
) -> Iterator[tuple[int, MolGraph]]:
    """Yield the molecules of all rows with their rows; `rejected` receives the rows that cannot be
    read. Other arguments and errors as for `encoded_rows`."""
    featurizer = featurize.get(config.featurizer)
    for row, (text, graph) in enumerate(zip(smiles, featurizer.stream(standard), strict=True)):
        if isinstance(graph, MolGraph):
            yield row, graph
            continue
        entry = Rejected(row, text, str(graph))
        if config.on_invalid == "fail":
            raise _refusal(entry, location(row))
        rejected.append(entry)


def _refusal(entry: Rejected, location: str) -> DataError:
    """Return the error for a row that cannot be read."""
    return DataError(
        f"{location}: {entry.reason}. Fix the row, or use --on-invalid skip to leave such rows out "
        "and list them in rejected.csv"
    )
