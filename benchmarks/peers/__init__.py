"""What others have for the same work. A peer that is not here is said, and its stage runs on."""

from __future__ import annotations

__all__ = ["PeerMissing"]


class PeerMissing(Exception):
    """This peer cannot be run here; the message says why, and what to do."""
