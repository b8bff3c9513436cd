"""Tables with an official split; run.py says how."""
