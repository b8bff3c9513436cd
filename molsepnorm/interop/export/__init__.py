"""Export trained models as ONNX, which maps tensors to predictions."""

from molsepnorm.interop.export.dense import DenseGraphormer, DenseModel
from molsepnorm.interop.export.inputs import DenseInputs, dense_inputs, dynamic_shapes
from molsepnorm.interop.export.run import ExportReport, export_onnx

__all__ = [
    "DenseGraphormer",
    "DenseInputs",
    "DenseModel",
    "ExportReport",
    "dense_inputs",
    "dynamic_shapes",
    "export_onnx",
]
