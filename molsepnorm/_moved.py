"""Import paths of version 0.1, such as `molsepnorm.featurize.pyg`, for modules that moved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["install"]

_MOVED = {
    "molsepnorm.encodings.transform": "molsepnorm.interop.transform",
    "molsepnorm.encodings": "molsepnorm.molecules.encodings",
    "molsepnorm.featurize": "molsepnorm.molecules.featurize",
}
"""Old name -> new name of a module and of all modules below it."""


class _Alias(MetaPathFinder, Loader):
    """Imports a moved module, so that both names refer to the same module object."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for old, new in _MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                origin = new + fullname.removeprefix(old)
                return ModuleSpec(fullname, self, origin=origin) if find_spec(origin) else None
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = import_module(spec.origin)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import under the old name has replaced it


def install() -> None:
    """Register the old names, before Python's own finders, which would load modules twice."""
    sys.meta_path.insert(0, _Alias())
