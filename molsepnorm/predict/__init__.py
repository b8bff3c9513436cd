"""Predict from SMILES, or embed them, as a stream, in one process or in several.

- `encode`: rows of SMILES and feature columns, checked and encoded;
- `inference`: a model, run on encoded rows: a table of predictions, or `Embeddings`;
- `predictor`: `Predictor`, which cuts a stream of rows into tasks;
- `workers`: worker processes that do one task after the other;
- `uncertainty`, `domain`: the columns that describe how sure a prediction is;
- `prediction`: `Prediction`, what is predicted for one molecule;
- `tables`, `output`: `predict_rows` and `embed_rows`, from a table to a table with results.
"""

from molsepnorm.model.parts import infer
from molsepnorm.predict.inference import Embeddings
from molsepnorm.predict.prediction import Prediction
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.tables import embed_rows, predict_rows

__all__ = ["Embeddings", "Prediction", "Predictor", "embed_rows", "infer", "predict_rows"]
