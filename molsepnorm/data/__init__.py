"""Tables and named data sets: from a file or a name to a store, labels, a split and batches."""
