"""Parameters of WebHDFS requests. As on a NameNode, their names are case-insensitive (ParamFilter, AuthFilter)."""

from __future__ import annotations

from typing import Final

from flask import request
from werkzeug.datastructures import MultiDict

TOKEN_PARAMETER: Final = "delegation"


def webhdfs_parameters() -> MultiDict[str, str]:
    """Return the parameters of the request, with names in lower case."""
    return MultiDict([(name.lower(), value) for name, value in request.args.items(multi=True)])
