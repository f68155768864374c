"""The user of this process."""

from __future__ import annotations

import os
import pwd


def process_user() -> str:
    """Return the name of this process's user, or the user's number if there is no name.

    In a container, the user may have no name, and a host may lose its directory service.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
