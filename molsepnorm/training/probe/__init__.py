"""Heads that are solved for, from the embeddings of a network whose weights do not change.

All models here are ridge regressions. The penalty is the one with the smallest leave-one-out error
on the training molecules, which has a closed form. All rows of a molecule, such as measurements at
several temperatures, are left out together. No validation molecules are used.

A label that is a bound, such as ">10", is used as if it were the number, since a one-sided loss has
no closed form. The epochs after the probe use the one-sided loss.
"""
