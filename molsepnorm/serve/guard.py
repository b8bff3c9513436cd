"""`Guard`: checks of every request, and headers of every response."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_OWN_HEADERS = [(name.encode(), text.encode()) for name, text in _HEADERS.items()]


class _TooLarge(Exception):
    pass


class Guard:
    """Refuses requests from other web sites and bodies that are too large.

    A page of another site could reach a server on this computer through the browser. Its requests
    have another origin, or, if its name was made to point here, another host.

    Args:
        app: the application (ASGI).
        hosts: names under which the server may be addressed; None for any.
        max_bytes: maximum size of a body.
    """

    def __init__(self, app: App, hosts: set[str] | None, max_bytes: int) -> None:
        self._app, self._hosts, self._max_bytes = app, hosts, max_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        host = headers.get("host", "")
        origin = headers.get("origin")
        if self._hosts is not None and _split(f"//{host}").hostname not in self._hosts:
            await _refuse(send, 400, "the server is not known under this name")
            return
        if origin is not None and _split(origin).netloc != host:
            await _refuse(send, 403, "requests from other web sites are refused")
            return
        too_large = f"the request is larger than {self._max_bytes / 1e6:g} MB: send fewer molecules"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_bytes:
            await _refuse(send, 413, too_large)
            return
        size, started = 0, False

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise _TooLarge
            return message

        async def with_headers(message: Message) -> None:
            nonlocal started
            if size > self._max_bytes and not started:
                return  # the application's own answer to the error, which FastAPI catches
            if message["type"] == "http.response.start":
                started = True
                given = [*message.get("headers", [])]
                names = {name.lower() for name, _ in given}
                given += [each for each in _OWN_HEADERS if each[0] not in names]
                message["headers"] = given
            await send(message)

        with suppress(_TooLarge):
            await self._app(scope, counted, with_headers)
        if size > self._max_bytes and not started:
            await _refuse(send, 413, too_large)


def _split(address: str) -> SplitResult:
    """Return the parts of an address, all empty if it is malformed."""
    try:
        return urlsplit(address)
    except ValueError:
        return SplitResult("", "", "", "", "")


async def _refuse(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close"), *_OWN_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
