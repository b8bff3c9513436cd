"""`molsepnorm serve`."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Any

import click

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import one_line, say
from molsepnorm.cli.sources import card_of
from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.optional import require_package
from molsepnorm.pretrained import SERVED

_LOCAL = ("127.0.0.1", "localhost", "::1")
_up_to = partial(click.FloatRange, 0, min_open=True)


@cli.command()
@cli.models_option("to offer several models on the page", SERVED)
@cli.setting_options("run.device", defaults=True)
@cli.option(
    "--host",
    heading="Server",
    default=_LOCAL[0],
    help="Address to listen on. With 0.0.0.0 other computers can use the server, too.",
)
@cli.option(
    "--port", type=click.IntRange(0, 65535), default=8000, help="Port; 0 chooses a free one."
)
@cli.option("--open/--no-open", "browser", default=False, help="Open the page in a browser.")
@cli.option(
    "--max-rows",
    "rows",
    heading="Limits of a request",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    help="Number of molecules.",
)
@cli.option("--max-mb", "megabytes", type=_up_to(1000), default=20, help="Size in megabytes.")
@cli.option("--time-limit", "seconds", type=_up_to(3600), default=60, help="Time in seconds.")
def serve(
    model_folders: tuple[Path, ...],
    device: str,
    host: str,
    port: int,
    browser: bool,
    **limits: Any,
) -> None:
    """Start a page in the browser that predicts pasted molecules and tables.

    The page shows the molecules with predictions, intervals, the nearest training molecules and
    the contributions of their atoms, and works without internet. Programs send SMILES to /predict.
    docs/serve.md describes both.

    \b
    molsepnorm serve --open
    molsepnorm serve --model runs/logS
    molsepnorm serve --model runs/logS --model runs/herg --port 8080
    """
    for name in ("fastapi", "uvicorn"):
        require_package(name, "serve", "the page in the browser")
    with _listening(host, port) as listener:
        import uvicorn

        from molsepnorm.model import PropertyModel
        from molsepnorm.serve import Limits, Service
        from molsepnorm.serve.app import create_app

        named = _named(model_folders or (Path(SERVED),)).items()
        models = {name: PropertyModel.from_pretrained(folder) for name, folder in named}
        cards = {name: card for name, folder in named if (card := card_of(folder)) is not None}
        service = Service(models, Limits(**limits), device, cards)
        app = create_app(service, {*_LOCAL} if host in _LOCAL else None)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        say(one_line(f"Serving {', '.join(models)} at {address} (Ctrl-C stops)"))
        if host not in _LOCAL:
            say(
                "Other computers can use this server, without a password and unencrypted: "
                "use it in a trusted network only",
                err=True,
            )
        if browser:
            click.launch(address)
        config = uvicorn.Config(app, log_level="warning", server_header=False, access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


def _named(folders: tuple[Path, ...]) -> dict[str, Path]:
    """Return the folders by name: the last part of the path, numbered where equal.

    >>> [*_named((Path("a/logS"), Path("b/logS"), Path("c/herg/model")))]
    ['logS', 'logS-2', 'herg']
    """
    named: dict[str, Path] = {}
    for folder in folders:
        path = folder.resolve()
        name = path.parent.name if path.name == "model" else path.name
        free, number = name, 1
        while free in named:
            number += 1
            free = f"{name}-{number}"
        named[free] = folder
    return named


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except UnicodeError:
        raise ConfigError(f"--host {host!r} is not an address such as 127.0.0.1") from None
    except OSError as error:
        raise StorageError(
            f"the server cannot listen on {host}, port {port}: {error.strerror or error}. Choose "
            "another --port, or 0 for a free one"
        ) from None
