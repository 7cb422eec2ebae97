"""The files that browsers get: style sheet, script, icon. They are of this package alone.

Their addresses hold a digest of their content, so that browsers may keep them for good.
"""

import hashlib
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fedforest.reports.page import read_style

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NAMES = ("style.css", "dashboard.js", "icon.svg")


@cache
def read_asset(name: str) -> bytes:
    """Return a file's content; the style sheet is that of reports, and what pages add."""
    folder = files("fedforest.web.dashboard") / "assets"
    text = (folder / name).read_text("utf-8")
    return (read_style() + text if name == "style.css" else text).encode()


@cache
def asset_url(name: str) -> str:
    """Return the address of a file."""
    return f"/static/{hashlib.sha256(read_asset(name)).hexdigest()[:16]}/{name}"


async def send_asset(request: Request) -> Response:
    """Answer a request for a file."""
    name = request.path_params["name"]
    if name not in _NAMES or request.url.path != asset_url(name):
        return PlainTextResponse("there is no such file\n", 404)
    kind = _TYPES[name[name.rindex(".") :]]
    return Response(
        read_asset(name),
        media_type=kind,
        headers={"cache-control": "public, max-age=31536000, immutable"},
    )
