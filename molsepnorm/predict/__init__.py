"""Predict from SMILES, or embed them, as a stream, in one process or in several."""

from molsepnorm.model.parts import infer
from molsepnorm.predict.inference import Embeddings
from molsepnorm.predict.prediction import Prediction
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.reference import Reference
from molsepnorm.predict.tables import TableRows, embed_rows, predict_rows

__all__ = [
    "Embeddings",
    "Prediction",
    "Predictor",
    "Reference",
    "TableRows",
    "embed_rows",
    "infer",
    "predict_rows",
]
