"""timm, which needs a torchvision that may not fit the torch that is here; torch without its fused
path."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="session")
def timm() -> Iterator[ModuleType]:
    """timm as installed, or from the folder `vision` of the environment (see the Makefile)."""
    if importlib.util.find_spec("timm"):
        yield importlib.import_module("timm")
        return
    folder = Path(sys.prefix) / "vision"
    if not (folder / "timm").is_dir():
        pytest.skip("needs timm and torchvision: 'make install', or pip install timm")
    operators = _operators(folder / "torchvision")  # they live as long as this name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(folder)])
        yield importlib.import_module("timm")
    del operators


def _operators(torchvision: Path) -> torch.library.Library | None:
    """Declare the operators that torchvision wants to find when it is imported, if its compiled
    part does not load: a wheel for CUDA beside a torch for CPUs. No model here calls them."""
    try:
        torch.ops.load_library(str(next(torchvision.glob("_C*"))))
        return None
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library


@pytest.fixture
def unfused() -> Callable[[], AbstractContextManager[None]]:
    """`with unfused():` torch's encoders compute layer by layer, whatever they could do."""

    @contextmanager
    def unfused() -> Iterator[None]:
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(True)

    return unfused
