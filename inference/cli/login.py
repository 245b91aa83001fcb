"""Where the control plane is and how to prove who asks: from the environment, or as `tandem login` stored it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from inference.cli.errors import BadValue, NotLoggedIn
from inference.contracts import codec
from inference.process.files import write_atomically

URL_VARIABLE = "TANDEM_URL"
TOKEN_VARIABLE = "TANDEM_TOKEN"  # noqa: S105 - the name of one
CA_FILE_VARIABLE = "TANDEM_CA_FILE"

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """url: of the control plane, without a path. ca_file: certificates that vouch for it; empty: the system's."""

    url: str
    token: str
    ca_file: str = ""

    def __repr__(self) -> str:
        return f"Login(url={self.url!r})"  # no traceback or log line shall hold the token

    @property
    def in_the_clear(self) -> bool:
        """Whether the token travels unencrypted to another machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in _LOCAL


def login_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file of `tandem login`: in XDG_CONFIG_HOME, else in ~/.config."""
    base = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    return folder / "tandem" / "login.json"


def login_current(environment: Mapping[str, str] = os.environ) -> Login:
    """From the environment where it says so, else as stored.

    Raises:
        NotLoggedIn: neither has it.
        BadValue: what is there can't be used.
    """
    url, token = environment.get(URL_VARIABLE, ""), environment.get(TOKEN_VARIABLE, "")
    ca_file = environment.get(CA_FILE_VARIABLE, "")
    if url and token:
        return Login(url=checked_url(url), token=token, ca_file=ca_file)
    stored = login_stored(login_path(environment))
    if stored is None:
        raise NotLoggedIn(f"Not logged in: run tandem login, or set both {URL_VARIABLE} and {TOKEN_VARIABLE}.")
    if url and checked_url(url) != stored.url:  # a token goes nowhere but where it is from
        raise NotLoggedIn(f"There is no login for {url}: run tandem login --url {url}, or set {TOKEN_VARIABLE}.")
    return Login(url=stored.url, token=token or stored.token, ca_file=ca_file or stored.ca_file)


def login_stored(path: Path) -> Login | None:
    """What `tandem login` stored; None before it did.

    Raises:
        BadValue: others may read the file, or it holds something else.
    """
    try:
        mode, content = path.stat().st_mode, path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadValue(f"{path} can't be read: {error.strerror}.") from error
    if mode & 0o077:
        raise BadValue(f"Others may read the token in {path}: run chmod 600 {path}, and better make a new token.")
    try:
        return codec.decode(content, Login)
    except codec.CodecError as error:
        raise BadValue(f"{path} does not hold a login: run tandem login again.") from error


def login_store(path: Path, login: Login) -> None:
    """Keep `login`, readable by its owner alone.

    Raises:
        BadValue: the file can't be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, codec.encode(login))
    except OSError as error:
        raise BadValue(f"{path} can't be written: {error.strerror}.") from error


def login_forget(path: Path) -> bool:
    """Whether there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def checked_url(url: str) -> str:
    """`url` as it is kept.

    Raises:
        BadValue: it is no address of a control plane.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadValue(f"{url!r} is no address of a control plane: it looks like https://tandem.example.org.")
    if parts.username or parts.password:
        raise BadValue("The address must not hold a user or password: Tandem takes a token.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
