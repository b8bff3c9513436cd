"""Devices, precision, and the number of CPU threads."""
