"""`create_app`: the addresses of the server."""

# Without `from __future__ import annotations`: FastAPI reads the annotations of local functions.

import logging
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import AfterValidator, BaseModel, Field, Strict
from starlette.exceptions import HTTPException

from molsepnorm._version import __version__
from molsepnorm.errors import MolsepnormError, StorageError
from molsepnorm.files.writing import is_encodable
from molsepnorm.predict import Prediction
from molsepnorm.serve.service import LimitError, Service

_HERE = Path(__file__).parent
_SCRIPTS = "common.js", "grid.js", "page.js", "profile.js", "targets.js"
_FILES = {
    **dict.fromkeys(("page.css", "profile.css"), "text/css"),
    **dict.fromkeys(_SCRIPTS, "text/javascript"),
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_LOG = logging.getLogger("molsepnorm.serve")


def _encodable(text: str) -> str:
    if not is_encodable(text):
        raise ValueError("half of a surrogate pair (\\ud800 to \\udfff) is not a character")
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""Text that UTF-8 can hold; JSON may escape halves of characters."""
Cell = Text | Annotated[float, Strict()] | None
_LEVEL = "Add intervals or sets of classes that hold the label with this probability, such as 0.9."
_REFERENCE = "Add the percentile of each prediction among the molecules of the model's card."
_DOMAIN = "Add the nearest training molecule, and whether it is near enough."
Level = Annotated[float | None, Field(gt=0, lt=1, description=_LEVEL)]
Domain = Annotated[bool, Field(description=_DOMAIN)]
ModelName = Annotated[Text | None, Field(description="Name of the model; the first by default.")]
Columns = Annotated[
    dict[Text, list[Cell]] | None,
    Field(description="Cells of the model's feature columns, by name."),
]


class PredictRequest(BaseModel, extra="forbid"):
    smiles: Annotated[list[Text], Field(min_length=1, description="The molecules.")]
    model: ModelName = None
    level: Level = None
    domain: Domain = False
    columns: Columns = None


class PredictResponse(BaseModel):
    predictions: Annotated[list[Prediction], Field(description="In the order of the molecules.")]
    notes: Annotated[list[str], Field(description="What should be checked.")]


class ExplainRequest(BaseModel, extra="forbid"):
    smiles: Annotated[Text, Field(description="The molecule.")]
    model: ModelName = None
    columns: Columns = None
    targets: Annotated[list[Text] | None, Field(description="Targets; all by default.")] = None


def create_app(service: Service, hosts: set[str] | None = None) -> FastAPI:
    """Return the application of a server with these names; None for any name."""
    # Requests that wait for their turn may hold all threads: what needs no turn is async.
    app = FastAPI(
        title="molsepnorm",
        version=__version__,
        summary="Predictions of molecular properties.",
        docs_url=None,
        redoc_url=None,
    )

    @app.middleware("http")
    async def guarded(request: Request, answer: Any) -> Response:
        refused = _refusal(request, hosts, service.limits.megabytes)
        response = refused or await answer(request)
        response.headers.update(_HEADERS)
        return response

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        return (_HERE / "page.html").read_text(encoding="utf-8")

    @app.get("/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(404)
        return Response((_HERE / name).read_bytes(), media_type=_FILES[name])

    @app.get("/api/health", summary="Whether the server answers")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @app.get("/api/models", summary="The models, their targets, and the limits of a request")
    async def models() -> dict[str, Any]:
        return {"models": service.describe(), "limits": vars(service.limits)}

    @app.post("/predict", summary="Predictions for some SMILES", response_model=PredictResponse)
    def predict(request: PredictRequest) -> Response:
        predictions, notes = service.predict(**dict(request))
        answer = PredictResponse(predictions=predictions, notes=notes)
        return Response(answer.model_dump_json(), media_type="application/json")

    @app.post(
        "/api/table",
        summary="A table with predictions, as CSV; the body is the table",
        response_class=Response,
        openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}}},
    )
    async def table(
        request: Request,
        name: Annotated[str, Query(description="Name of the file; its end names the format.")],
        model: ModelName = None,
        level: Level = None,
        domain: Domain = False,
        reference: Annotated[bool, Query(description=_REFERENCE)] = False,
    ) -> Response:
        content = await request.body()
        options = name, model, level, domain, reference
        result = await run_in_threadpool(service.table, content, *options)
        headers = {
            "x-smiles-column": quote(result.smiles_column),
            "x-failed": str(result.failed),
            "x-notes": quote("\n".join(result.notes)),
        }
        return Response(result.csv.encode(), media_type="text/csv; charset=utf-8", headers=headers)

    @app.post("/api/explain", summary="Contributions of the atoms and fragments of a molecule")
    def explain(request: ExplainRequest) -> dict[str, Any]:
        return service.explain(**dict(request))

    @app.get("/api/alerts", summary="Structural alerts of a molecule, which are no predictions")
    def alerts(smiles: str) -> dict[str, Any]:
        return {"alerts": service.alerts(smiles)}

    @app.get(
        "/api/drawing", summary="A molecule as SVG, with atoms marked", response_class=Response
    )
    def drawing(smiles: str, atoms: Annotated[list[int], Query()] = []) -> Response:  # noqa: B006
        return Response(service.drawing(smiles, atoms), media_type="image/svg+xml")

    @app.exception_handler(MolsepnormError)
    def refused(_: Request, error: MolsepnormError) -> JSONResponse:
        status = error.status if isinstance(error, LimitError) else 400
        return _error(500 if isinstance(error, StorageError) else status, str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return _error(422, f"{place}: {first['msg']}" if place else str(first["msg"]))

    @app.exception_handler(HTTPException)
    def missing(_: Request, error: HTTPException) -> JSONResponse:
        return _error(error.status_code, str(error.detail))

    @app.exception_handler(Exception)
    def failed(_: Request, error: Exception) -> JSONResponse:
        _LOG.error("a request failed", exc_info=error)
        return _error(500, "the server failed; its log has the reason")

    return app


def _refusal(request: Request, hosts: set[str] | None, megabytes: float) -> Response | None:
    """Refuse bodies that are too large, and requests from pages of other sites, which have another
    origin, or another host if their name was made to point here."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    try:
        is_known = hosts is None or urlsplit(f"//{host}").hostname in hosts
        is_own = origin is None or urlsplit(origin).netloc == host
    except ValueError:  # a malformed address
        is_known = is_own = False
    if not is_known:
        return _error(400, "the server is not known under this name")
    if not is_own:
        return _error(403, "requests from other web sites are refused")
    if "transfer-encoding" in request.headers:
        return _error(411, "the size of the request is missing: send a Content-Length")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > megabytes * 1e6:
        return _error(413, f"the request is larger than {megabytes:g} MB: send fewer molecules")
    return None


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)
