"""Other programs for the same work. A stage whose peer is missing says so and runs without it."""

from __future__ import annotations

__all__ = ["PeerMissing"]


class PeerMissing(Exception):
    """The peer cannot run here; the message says why and what to do."""
