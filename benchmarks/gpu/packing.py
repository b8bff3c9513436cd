"""What `pack.sh` does for data sets: from their raw files to .gpu/molecules."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from where import commit

from gpu.packed import pack, unpack
from molsepnorm.data import datasets
from molsepnorm.model import encoding_of
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.training import load_config
from molsepnorm.training.run import architecture

__all__ = ["pack_all"]

_GPU = Path(__file__).parents[2] / ".gpu"


def pack_all(names: Sequence[str]) -> int:
    """Pack these data sets, look whether they unpack to the same stores, note the commit."""
    (_GPU / "molecules").mkdir(parents=True, exist_ok=True)
    for name in names:
        config = load_config(name)
        dataset = datasets.load(config.data, encoding_of(architecture(config)))
        store = dataset.store
        path = _GPU / "molecules" / f"{name}.npz"
        pack(dataset, path)
        same = _unpacks_to(path, store.path, store.encoding)
        sizes = f"{path.stat().st_size / 2**20:.1f} MiB, {len(store):,} molecules"
        print(f"{name}: {sizes}; unpacked it {'equals' if same else 'DIFFERS FROM'} its store")
        if not same:
            return 1
    (_GPU / "commit").write_text(f"{commit()}\n")
    return 0


def _unpacks_to(path: Path, store: Path, encoding: EncodingSpec) -> bool:
    """Whether what was packed becomes that file, byte for byte."""
    before = os.environ.get("MOLSEPNORM_CACHE")
    try:
        with TemporaryDirectory() as folder:
            os.environ["MOLSEPNORM_CACHE"] = folder
            made = unpack(path, "check", encoding).path
            return filecmp.cmp(made, store, shallow=False)
    finally:
        del os.environ["MOLSEPNORM_CACHE"]
        if before is not None:
            os.environ["MOLSEPNORM_CACHE"] = before
