"""The parts of a model beside its networks, which are fitted once these are chosen.

- `complete`: all of them, in the order of the next lines, and the scores;
- `baseline`: the random forest, and the shares of the parts in the predictions;
- `calibration`: intervals and calibrated probabilities;
- `domain`: how errors depend on the similarity to the training molecules.
"""
