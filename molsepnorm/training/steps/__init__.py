"""The training step and its parts.

- `schedule`: the molecules of every step;
- `step`: forward pass, loss, gradients, clipping, optimiser, weight average;
- `optim`: optimiser and learning rate;
- `capture`: a step as one CUDA graph;
- `trial`: a few steps along the fast and the plain path, which must agree;
- `statistics`: batch-norm statistics of the current weights;
- `budget`: the number of epochs that fit into a time.
"""
