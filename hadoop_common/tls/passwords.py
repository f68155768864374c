"""Finds passwords of a Hadoop configuration, in credential providers or else as clear text
(Configuration.getPassword).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hadoop_common.config_key import NAMES, SWITCH, ConfigKey, text
from hadoop_common.configuration import Configuration
from hadoop_common.regular_file import read_regular
from hadoop_common.tls.errors import KeyStoreError, TlsSetupError
from hadoop_common.tls.java_store import find_credential

PROVIDERS = ConfigKey(
    "hadoop.security.credential.provider.path",
    "",
    NAMES,
    "Credential providers: jceks://file/PATH, localjceks://file/PATH.",
)
_CLEAR_TEXT = ConfigKey(
    "hadoop.security.credential.clear-text-fallback",
    "true",
    SWITCH,
    "Whether a configuration file may contain a password itself.",
)
_PASSWORD_FILE = ConfigKey(
    "hadoop.security.credstore.java-keystore-provider.password-file",
    "",
    text("file"),
    "File with the password of the credential providers.",
)
_PASSWORD_VARIABLE = "HADOOP_CREDSTORE_PASSWORD"
_DEFAULT_PASSWORD = "none"
_MAX_STORE_BYTES = 16 << 20
_MAX_PASSWORD_BYTES = 4096


class Passwords:
    """Finder of the passwords of a configuration in `folder`.

    Attributes:
        files: files of the providers, including missing files.
    """

    def __init__(self, settings: Configuration, folder: Path, environment: Mapping[str, str]) -> None:
        self._settings = settings
        self._folder = folder
        self._environment = environment
        paths = [_path(each) for each in PROVIDERS.read(settings)]
        self.files = tuple(each for each in paths if each is not None)

    def find(self, name: str) -> str | None:
        """Return the password for the `name` key, or None if there is none.

        Raises:
            TlsSetupError: a provider cannot be read.
        """
        found = self.stored(name)
        if found is None and _CLEAR_TEXT.read(self._settings):
            return self._settings.get(name)
        return found

    def stored(self, name: str) -> str | None:
        """Return the password for the `name` key from the first provider that has it, or None if no provider does.

        Raises:
            TlsSetupError: a provider cannot be read.
        """
        found = (self._from(file, name) for file in self.files)
        return next((each for each in found if each is not None), None)

    def sources(self) -> str:
        """Return the places that are searched, for use in a sentence."""
        places = [*map(str, self.files), *(["the file itself"] if _CLEAR_TEXT.read(self._settings) else [])]
        return " or ".join(places) or "no provider"

    def _from(self, file: Path, name: str) -> str | None:
        try:
            data = read_regular(file, _MAX_STORE_BYTES)
        except FileNotFoundError:
            # Hadoop would create an empty provider
            return None
        except OSError as fault:
            raise _unreadable(file, fault) from fault
        try:
            return find_credential(data, self._store_password(), name)
        except KeyStoreError as fault:
            raise TlsSetupError(
                f"the credential provider {file} cannot be used: {fault.message}",
                hint=f"Check {_PASSWORD_VARIABLE} and {_PASSWORD_FILE.name}. `hadoop credential` creates providers.",
            ) from fault

    def _store_password(self) -> str:
        given = self._environment.get(_PASSWORD_VARIABLE)
        if given is not None:
            return given
        name = _PASSWORD_FILE.read(self._settings)
        if not name:
            return _DEFAULT_PASSWORD
        file = self._folder / name
        try:
            return read_regular(file, _MAX_PASSWORD_BYTES).decode("utf-8", "replace").strip()
        except OSError as fault:
            raise _unreadable(file, fault) from fault


def _path(uri: str) -> Path | None:
    """Return the file of a provider; None for the provider of the user's credentials, which is empty in a daemon."""
    parts = urlsplit(uri)
    if parts.scheme == "user":
        return None
    if parts.scheme in ("jceks", "localjceks") and parts.netloc == "file" and parts.path:
        return Path(unquote(parts.path))
    raise TlsSetupError(
        f"{PROVIDERS.name} names the credential provider {parts.scheme}://{parts.netloc}, which is not supported",
        hint="Use localjceks://file/PATH, a file on this host.",
    )


def _unreadable(file: Path, fault: OSError) -> TlsSetupError:
    return TlsSetupError(
        f"the password file {file} cannot be read: {fault.strerror or fault}",
        hint="Check its path, and that the user of this process may read it.",
    )
