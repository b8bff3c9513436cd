"""`reference_page`: the addresses of the server for programs, as a page without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from molsepnorm._version import __version__
from molsepnorm.files.page import code, page, table

_EXAMPLE = """curl -X POST http://127.0.0.1:8000/predict -H 'Content-Type: application/json' \\
     -d '{"smiles": ["CCO", "c1ccccc1O"], "level": 0.9}'"""

_STYLE = "th, td { text-align: left; white-space: normal }"


def reference_page(schema: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document.

    The usual pages load their scripts from elsewhere, and this server works without internet.
    """
    parts = [
        f"<p>{escape(schema['info']['summary'])} Failed requests have a body such as "
        f"{code(json.dumps({'error': 'the reason'}))}. The same as OpenAPI: "
        '<a href="/openapi.json">openapi.json</a>. <a href="/">Back to the page</a>.</p>'
        f"<pre>{escape(_EXAMPLE)}</pre>"
    ]
    for path, methods in schema["paths"].items():
        for method, own in methods.items():
            parts.append(
                f"<h2>{code(f'{method.upper()} {path}')}</h2><p>{escape(own['summary'])}.</p>"
            )
            parameters = [
                (each["name"], _type(each["schema"]), each.get("description", ""))
                for each in own.get("parameters", ())
            ]
            if parameters:
                parts.append(table(parameters, ("parameter", "type", "")))
            body = own.get("requestBody", {}).get("content", {}).get("application/json", {})
            answer = own["responses"].get("200", {}).get("content", {}).get("application/json", {})
            for title, content in (("body", body), ("response", answer)):
                rows = [*_fields(content.get("schema", {}), schema)]
                if rows:
                    parts.append(table(rows, (title, "type", "")))
    body = "".join(parts)
    return page("molsepnorm: addresses", "Addresses for programs", body, __version__, _STYLE)


def _fields(
    schema: Mapping[str, Any], whole: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and description of the fields of an object, those of its parts indented."""
    own = _resolved(schema, whole)
    for name, each in own.get("properties", {}).items():
        yield f"{prefix}{name}", _type(each), each.get("description", "")
        inner = _resolved(each.get("items", each), whole)
        if inner is not own:
            yield from _fields(inner, whole, f"{prefix}{name}[]." if "items" in each else prefix)


def _resolved(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    return whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]]


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(inner := schema.get("additionalProperties"), dict):
        return f"object of {_type(inner)}"
    return schema.get("type", "object")
