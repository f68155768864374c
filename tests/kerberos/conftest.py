"""A realm that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hadoop_rpc.kerberos import log_in
from tests.interop.hadoop_home import SERVER, skip_without
from tests.kerberos.callers import add_users
from tests.kerberos.kdc import Kdc, skip_without_kdc
from tests.kerberos.secure_conf import add_principals, java_options


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Run a KDC with the principals of the servers, for this process and its children."""
    skip_without_kdc()
    with pytest.MonkeyPatch.context() as patch, Kdc(tmp_path_factory.mktemp("realm")) as running:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        patch.setenv("JAVA_TOOL_OPTIONS", java_options(running))
        add_principals(running)
        yield running


@pytest.fixture(scope="module")
def realm(kdc: Kdc) -> Kdc:
    add_users(kdc)
    return kdc


@pytest.fixture(scope="module")
def hadoop_here() -> None:
    skip_without(SERVER)


@pytest.fixture(autouse=True)
def logged_out() -> Iterator[None]:
    """Reset the login after each test, because the login is global to the process."""
    yield
    log_in(None)
