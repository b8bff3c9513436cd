"""Exchange with other libraries.

- `pyg`: PyTorch Geometric's data sets, loaders and transforms;
- `sklearn`: scikit-learn's estimators;
- `tracking`: callbacks for TensorBoard, MLflow and Weights & Biases;
- `export`: trained models as ONNX;
- `graphormer_weights`: weights of the Graphormer of transformers.
"""
