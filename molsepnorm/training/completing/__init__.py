"""The parts of a model beside its networks, which are fitted once these are chosen.

- `shares`: the shares of the trained network and of the forest in the predictions;
- `refit`: a second fit of kernel regressions, to the training and validation molecules;
- `complete`: all that follows, in the order of the next lines;
- `blending`: whether a forest may be blended, and what it reads;
- `baseline`: the random forest, and its comparison with the network;
- `calibration`: intervals and calibrated probabilities;
- `domain`: how errors depend on the similarity to the training molecules.
"""
