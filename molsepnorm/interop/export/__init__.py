"""Export trained models as files that map tensors to predictions: ONNX and TorchScript."""

from molsepnorm.interop.export.dense import DenseGraphormer
from molsepnorm.interop.export.formats import dynamic_shapes
from molsepnorm.interop.export.inputs import DenseInputs, dense_inputs
from molsepnorm.interop.export.predictions import DenseModel
from molsepnorm.interop.export.run import ExportReport, export_model

__all__ = [
    "DenseGraphormer",
    "DenseInputs",
    "DenseModel",
    "ExportReport",
    "dense_inputs",
    "dynamic_shapes",
    "export_model",
]
