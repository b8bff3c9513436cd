"""The parts of a model beside its networks, which are fitted once these are chosen."""
