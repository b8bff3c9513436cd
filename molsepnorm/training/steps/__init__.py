"""The training step and its parts.

- `schedule`: the molecules of every step;
- `step`: forward pass, loss, gradients, clipping, optimiser, weight average;
- `optim`: optimiser and learning rate;
- `statistics`: batch-norm statistics of the current weights;
- `budget`: the number of epochs that fit into a time.
"""
