"""Versions, devices and folders of an installation, and whether it computes what it should."""

from molsepnorm.doctor.checks import Check, run_checks
from molsepnorm.doctor.machine import Machine, describe

__all__ = ["Check", "Machine", "describe", "run_checks"]
