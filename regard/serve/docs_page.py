"""The page /docs: the OpenAPI document as plain HTML, without scripts and external resources."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Regard: API</title>
<link rel="icon" href="static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="static/docs.css">
</head>
<body>
"""


def docs_page(document: Mapping[str, Any], base: str) -> str:
    """Every endpoint of an OpenAPI document with an example `curl` command; `base` is the server's URL."""
    info = document["info"]
    parts = [
        _HEAD,
        f"<h1>{_text(info['title'])} {_text(info['version'])}</h1>\n<p>{_text(info.get('description', ''))}</p>\n",
        '<p><a href="./">The page</a> · <a href="openapi.json">OpenAPI document</a></p>\n',
    ]
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    links = (
        f'<li><a href="#{_anchor(path, method)}">{method.upper()} {_text(path)}</a>' for path, method, _ in operations
    )
    parts += ["<ul>\n", *(f"{link}</li>\n" for link in links), "</ul>\n"]
    for path, method, operation in operations:
        parts += _operation(document, base, path, method, operation)
    return "".join([*parts, "</body>\n</html>\n"])


def _operation(
    document: Mapping[str, Any], base: str, path: str, method: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    yield f'<h2 id="{_anchor(path, method)}">{method.upper()} {_text(path)}</h2>\n'
    yield f"<p>{_text(operation.get('description') or operation.get('summary', ''))}</p>\n"
    given = [
        (each["name"], each["schema"] | {"description": each.get("description", "")}, each.get("required", False))
        for each in operation.get("parameters", ())
    ]
    yield from _table("Parameters", given, document)
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        yield f"<p>Body: {', '.join(f'<code>{_text(kind)}</code>' for kind in content)}</p>\n"
        schema = _resolved(next(iter(content.values())).get("schema", {}), document)
        needed = schema.get("required", ())
        fields = [(name, each, name in needed) for name, each in schema.get("properties", {}).items()]
        yield from _table("Fields", fields, document)
    yield f"<pre>{_text(_command(base, path, method, content, document))}</pre>\n"
    answer = operation.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    schema = _resolved(answer.get("schema", {}), document)
    kept = [(name, each, False) for name, each in schema.get("properties", {}).items()]
    yield from _table("Answer", kept, document)
    refusals = [status for status in operation.get("responses", {}) if status != "200"]
    if refusals:
        yield f"<p>Errors: {_text(', '.join(sorted(refusals)))}</p>\n"


def _table(title: str, rows: list[tuple[str, Mapping[str, Any], bool]], document: Mapping[str, Any]) -> Iterator[str]:
    if not rows:
        return
    yield f"<table>\n<caption>{title}</caption>\n"
    for name, schema, needed in rows:
        said = str(schema.get("description", ""))
        kind = _kind(schema, document)
        yield f"<tr><td><code>{_text(name)}</code>{' (required)' if needed else ''}</td><td>{_text(kind)}</td>"
        yield f"<td>{_text(said)}</td></tr>\n"
    yield "</table>\n"


def _kind(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """A short name of a JSON schema's type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(json.dumps(each) for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(each, document) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), document)}"
    return str(schema.get("type", "any"))


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with references resolved; for an array, the schema of its items."""
    if schema.get("type") == "array":
        return _resolved(schema.get("items", {}), document)
    reference = str(schema.get("$ref", ""))
    if reference.startswith("#/components/schemas/"):
        found: Mapping[str, Any] = document["components"]["schemas"][reference.rpartition("/")[2]]
        return found
    return schema


def _command(base: str, path: str, method: str, content: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    url = f"{base}{path}"
    if method == "get" or not content:
        return f"curl {url}"
    kind, body = next(iter(content.items()))
    schema = _resolved(body.get("schema", {}), document)
    needed = {name: _example(name, schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "multipart/form-data":
        fields = " ".join(f"-F {name}={'@text.txt' if name == 'file' else value}" for name, value in needed.items())
        return f"curl {url} {fields}"
    if kind == "application/json":
        return f"curl {url} -H 'Content-Type: application/json' -d '{json.dumps(needed, ensure_ascii=False)}'"
    return f"curl {url} --data-binary @FILE"


def _example(name: str, schema: Mapping[str, Any]) -> Any:
    known = [each for each in schema.get("enum", ()) if each != "auto"]
    return known[0] if known else {"q": "Hello!", "text": "Hello!", "model": "NAME"}.get(name, "…")


def _anchor(path: str, method: str) -> str:
    return html.escape(f"{method}{path}".replace("/", "-").replace("{", "").replace("}", ""), quote=True)


def _text(text: str) -> str:
    return html.escape(str(text), quote=True)
