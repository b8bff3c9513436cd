"""What is measured and trained on a lent GPU; `run.py` is the command, QUEUE.md the plan."""
