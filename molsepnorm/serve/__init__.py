"""`molsepnorm serve`: a page in the browser, and predictions over HTTP."""

from molsepnorm.serve.service import Limits, Service

__all__ = ["Limits", "Service"]
