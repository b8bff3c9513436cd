"""Random forests on Morgan counts and descriptors: the baseline beside the network.

scikit-learn fits the trees. They are kept and evaluated as plain arrays, so that a file of them
needs no pickle.
"""
