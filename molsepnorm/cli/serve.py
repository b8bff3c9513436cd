"""`molsepnorm serve`."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from molsepnorm.cli.console import one_line, say
from molsepnorm.cli.options import FILE, GroupedCommand, option, setting_options
from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.optional import require_package

_LOCAL = ("127.0.0.1", "localhost", "::1")


@click.command(cls=GroupedCommand)
@option(
    "--model",
    "folders",
    heading="Model",
    required=True,
    multiple=True,
    type=FILE,
    help="Folder of a run or of a saved model; may be repeated, and the page then offers all of "
    "them.",
)
@setting_options("run.device", defaults=True)
@option(
    "--host",
    heading="Server",
    default=_LOCAL[0],
    show_default=True,
    help="Address to listen on. With 0.0.0.0 other computers can use the server, too.",
)
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port; 0 chooses a free one.",
)
@option("--open/--no-open", "browser", default=False, help="Open the page in a browser.")
@option(
    "--max-rows",
    heading="Limits of a request",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Number of molecules.",
)
@option(
    "--max-mb",
    type=click.FloatRange(0, 1000, min_open=True),
    default=20,
    show_default=True,
    help="Size in megabytes.",
)
@option(
    "--time-limit",
    type=click.FloatRange(0, 3600, min_open=True),
    default=60,
    show_default=True,
    help="Time in seconds.",
)
def serve(
    folders: tuple[Path, ...],
    device: str,
    host: str,
    port: int,
    browser: bool,
    max_rows: int,
    max_mb: float,
    time_limit: float,
) -> None:
    """Start a page in the browser that predicts pasted molecules and tables.

    The page shows the molecules with predictions, intervals, the nearest training molecules and
    the contributions of their atoms, and works without internet. Programs send SMILES to /predict.
    docs/serve.md describes both.

    \b
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

        models = {name: PropertyModel.from_pretrained(each) for name, each in _named(folders)}
        service = Service(models, Limits(max_rows, max_mb, time_limit), device)
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
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", server_header=False, access_log=False)
        )
        server.run(sockets=[listener])


def _named(folders: tuple[Path, ...]) -> list[tuple[str, Path]]:
    """Return the folders with the names of the models: their last parts, numbered where equal.

    >>> [name for name, _ in _named((Path("a/logS"), Path("b/logS"), Path("c/herg/model")))]
    ['logS', 'logS-2', 'herg']
    """
    names: list[str] = []
    for folder in folders:
        path = folder.resolve()
        name = path.parent.name if path.name == "model" else path.name
        count, free = 1, name
        while free in names:
            count += 1
            free = f"{name}-{count}"
        names.append(free)
    return [*zip(names, folders, strict=True)]


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except UnicodeError:
        raise ConfigError(
            f"--host {host!r} is not an address: give one such as 127.0.0.1"
        ) from None
    except OSError as error:
        raise StorageError(
            f"the server cannot listen on {host}, port {port}: {error.strerror or error}. Choose "
            "another --port, or 0 for a free one"
        ) from None
