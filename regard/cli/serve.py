"""`regard serve`: an HTTP API for translation, and a web page that shows attention."""

import os
import re
import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from regard.config.recipes import explain
from regard.errors import ConfigError
from regard.serve.settings import ServeSettings

DEFAULTS = ServeSettings()
KEYS_VARIABLE = "REGARD_API_KEYS"
TOKEN_VARIABLE = "REGARD_METRICS_TOKEN"


def _setting(name: str, *flags: str, default: bool | str = True) -> Any:
    """The command-line option of a setting, with the setting's description as help."""
    said = ServeSettings.model_fields[name].description or ""
    return typer.Option(*flags, help=f"{said[:1].upper()}{said[1:]}.", show_default=default)


def serve(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="A model folder, NAME=FOLDER, or installed models: de-en, 'de-en/*'. Default: all installed models.",
            metavar="MODEL",
            show_default=False,
        ),
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(help="Language pair of the models, such as de-en, if unknown.", show_default=False),
    ] = None,
    api_keys: Annotated[
        Path | None,
        typer.Option(
            help=f"File with API keys, one per line; or set {KEYS_VARIABLE}, separated by commas.", show_default=False
        ),
    ] = None,
    metrics_token: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the token for /metrics, in place of an API key; or set {TOKEN_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    overrides: Annotated[
        list[str],
        typer.Option("--set", help="Override a search setting: search.engine=ctranslate2", show_default=False),
    ] = [],  # noqa: B006
    host: Annotated[str, _setting("host")] = DEFAULTS.host,
    port: Annotated[int, _setting("port")] = DEFAULTS.port,
    allow_hosts: Annotated[list[str], _setting("allow_hosts", "--allow-host", default=False)] = [],  # noqa: B006
    allow_origins: Annotated[list[str], _setting("allow_origins", "--allow-origin", default=False)] = [],  # noqa: B006
    trusted_proxies: Annotated[list[str], _setting("trusted_proxies", "--trusted-proxy", default=False)] = [],  # noqa: B006
    max_characters: Annotated[int, _setting("max_characters")] = DEFAULTS.max_characters,
    max_file_characters: Annotated[int, _setting("max_file_characters")] = DEFAULTS.max_file_characters,
    max_texts: Annotated[int, _setting("max_texts")] = DEFAULTS.max_texts,
    max_look_characters: Annotated[int, _setting("max_look_characters")] = DEFAULTS.max_look_characters,
    max_alternatives: Annotated[int, _setting("max_alternatives")] = DEFAULTS.max_alternatives,
    max_beam: Annotated[int, _setting("max_beam")] = DEFAULTS.max_beam,
    max_image_bytes: Annotated[int, _setting("max_image_bytes")] = DEFAULTS.max_image_bytes,
    max_image_pixels: Annotated[int, _setting("max_image_pixels")] = DEFAULTS.max_image_pixels,
    max_image_side: Annotated[int, _setting("max_image_side")] = DEFAULTS.max_image_side,
    max_images: Annotated[int, _setting("max_images")] = DEFAULTS.max_images,
    max_queue: Annotated[int, _setting("max_queue")] = DEFAULTS.max_queue,
    max_batch: Annotated[int, _setting("max_batch")] = DEFAULTS.max_batch,
    max_connections: Annotated[int, _setting("max_connections")] = DEFAULTS.max_connections,
    max_connections_per_address: Annotated[
        int, _setting("max_connections_per_address")
    ] = DEFAULTS.max_connections_per_address,
    max_requests_per_minute: Annotated[
        int | None, _setting("max_requests_per_minute", default=False)
    ] = DEFAULTS.max_requests_per_minute,
    max_requests_per_hour: Annotated[
        int | None, _setting("max_requests_per_hour", default=False)
    ] = DEFAULTS.max_requests_per_hour,
    max_requests_per_day: Annotated[
        int | None, _setting("max_requests_per_day", default=False)
    ] = DEFAULTS.max_requests_per_day,
    max_wrong_keys_per_minute: Annotated[
        int, _setting("max_wrong_keys_per_minute")
    ] = DEFAULTS.max_wrong_keys_per_minute,
    max_seconds: Annotated[float, _setting("max_seconds")] = DEFAULTS.max_seconds,
    max_slow_seconds: Annotated[float, _setting("max_slow_seconds")] = DEFAULTS.max_slow_seconds,
    workers: Annotated[int | None, _setting("workers", default=False)] = DEFAULTS.workers,
    batch_wait: Annotated[float, _setting("batch_wait")] = DEFAULTS.batch_wait,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads [all cores].", show_default=False)] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve models over HTTP: a LibreTranslate-compatible API, and a web page that shows their attention.

    Captioners and classifiers are served too: the page then also takes images.

    \b
    regard serve models/de-en models/en-de --port 5000
    regard serve --open
    """
    table = {name: context.params[name] for name in ServeSettings.model_fields}
    try:
        settings = ServeSettings.model_validate(table)
    except ValidationError as error:
        raise ConfigError(explain(error, ServeSettings, table)) from None
    keys = read_keys(api_keys), read_token(metrics_token)
    _run(models or ["*"], settings, languages, *keys, device, threads, overrides, open_page)


def read_keys(path: Path | None) -> list[str]:
    """API keys from a file or the environment; a file without keys raises, since it would turn authentication off."""
    if path is None:
        keys = [key.strip() for key in os.environ.get(KEYS_VARIABLE, "").split(",")]
        return [key for key in keys if key]
    from regard.data.lines import read_lines

    lines = [line.strip() for line in read_lines(path)]
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ConfigError(f"{path}: contains no API key: write one per line, or omit --api-keys (no authentication).")
    return keys


def read_token(path: Path | None) -> str | None:
    """The token for /metrics, from a file or the environment."""
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    tokens = read_keys(path)
    if len(tokens) > 1:
        raise ConfigError(f"{path}: contains {len(tokens)} tokens: write exactly one.")
    return tokens[0]


def _run(
    arguments: list[str],
    settings: ServeSettings,
    languages: str | None,
    keys: list[str],
    metrics_token: str | None,
    device: str,
    threads: int | None,
    overrides: list[str],
    open_page: bool,
) -> None:
    try:
        import babel  # noqa: F401
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(f"serving needs {error.name}: pip install 'regard[serve]'.") from None

    from regard.process import tune_without_torch
    from regard.serve.app import build_app
    from regard.serve.models import load_models
    from regard.serve.server import run_server

    tune_without_torch(threads)
    models = load_models(arguments, languages, device, overrides)
    for model in models:
        if not model.languages.known:
            typer.echo(f"{model.name}: languages unknown: set them with --languages de-en.", err=True)
    names = [f"{each.name} ({each.languages.source}-{each.languages.target})" for each in models]
    names += [f"{each.name} (images)" for each in models.images]
    app = build_app(models, settings, keys, metrics_token)

    def started(address: str) -> None:
        typer.echo(f"Regard serves {', '.join(names)} at {address}")
        if open_page:
            threading.Thread(target=_open_page, args=(address,), daemon=True).start()  # a browser may take its time

    run_server(app, settings, started)


def _open_page(address: str) -> None:
    """Open the address in a browser; a server on all interfaces is reached at the loopback address."""
    page = re.sub(r"//(0\.0\.0\.0|\[::\])(?=:)", "//127.0.0.1", address)
    if not webbrowser.open(page):
        typer.echo(f"--open: no browser was found here: open {page} in yours.", err=True)
