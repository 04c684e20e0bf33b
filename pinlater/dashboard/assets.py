"""Scripts and styles: loaded at startup, with a content hash in their URLs so that browsers can cache them."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_NAMES = (
    *("style.css", "theme.js", "live.js", "keys.js", "times.js", "charts.js", "icon.svg"),
    *("vendor/htmx.min.js", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css"),
)


class _Asset(NamedTuple):
    data: bytes
    media_type: str
    version: str


def _load(name: str) -> _Asset:
    data = files("pinlater.dashboard").joinpath("static", name).read_bytes()
    return _Asset(data, _TYPES[name.rpartition(".")[2]], hashlib.sha256(data).hexdigest()[:12])


_ASSETS = {name: _load(name) for name in _NAMES}


def url_of(name: str) -> str:
    """Return the URL path of an asset."""
    return f"/static/{_ASSETS[name].version}/{name}"


async def asset(request: Request) -> Response:
    """Serve an asset. Only loaded assets exist, so no path can lead to other files."""
    found = _ASSETS.get(request.path_params["name"])
    if found is None:
        return PlainTextResponse("there is no such file\n", 404)
    is_current = request.path_params["version"] == found.version
    age = "public, max-age=31536000, immutable" if is_current else "no-cache"
    return Response(found.data, media_type=found.media_type, headers={"Cache-Control": age})
