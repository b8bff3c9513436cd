"""Predict from SMILES, or embed them, as a stream, in one process or in several.

- `arguments`: checks of what a `Predictor` is given;
- `encode`, `forward`: encode a list of SMILES in groups, and predict or embed them;
- `workers`: worker processes that do this for one list after the other;
- `inference`: `infer`, a network's outputs for encoded molecules;
- `prediction`: `Prediction`, what is predicted for one molecule;
- `predictor`: `Predictor`, which cuts a stream into such lists;
- `rows`: `predict_rows`, from a table to a table with predictions;
- `embedding_tables`: `embed_rows`, from a table to a table with embeddings.
"""

from molsepnorm.predict.embedding_tables import embed_rows
from molsepnorm.predict.forward import Embeddings
from molsepnorm.predict.inference import infer
from molsepnorm.predict.prediction import Prediction
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.rows import predict_rows

__all__ = ["Embeddings", "Prediction", "Predictor", "embed_rows", "infer", "predict_rows"]
