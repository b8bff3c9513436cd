"""Import paths of version 0.1 that have moved: `molsepnorm.featurize.pyg` and others still work."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["install"]

_MOVED = {
    "molsepnorm.encodings.transform": "molsepnorm.interop.transform",
    "molsepnorm.encodings": "molsepnorm.molecules.encodings",
    "molsepnorm.featurize": "molsepnorm.molecules.featurize",
}
"""Old name -> new name, of a module and of everything below it."""


class _Alias(MetaPathFinder, Loader):
    """Imports a module that has moved, so that both names mean one module object."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for old, new in _MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                return ModuleSpec(fullname, self, origin=new + fullname.removeprefix(old))
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = import_module(spec.origin)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importing under the old name has replaced it


def install() -> None:
    """Register the old names, once."""
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.append(_Alias())
