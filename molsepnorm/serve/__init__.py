"""`molsepnorm serve`: a page in the browser, and predictions over HTTP.

- `service`: the models, and what the page and the programs can request, within limits;
- `app`: the addresses of the server, and the checks of every request;
- `reference`: the page that describes the addresses;
- `page.html`, `page.css`, `page.js`: the page, without anything from elsewhere.
"""

from molsepnorm.serve.service import Limits, Service

__all__ = ["Limits", "Service"]
