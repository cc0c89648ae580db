"""Where the cluster is and who we are there: kubeconfig or service account.

Reading is the official client's: certificates, tokens, exec plugins, proxies, rotation of a Pod's
token. It is imported here, late, for it costs a third of a second.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptahk.errors import PtahkError, Unreachable, UsageError
from ptahk.wire.redact import Redactor

if TYPE_CHECKING:
    from kubernetes.client import Configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POOL_SIZE = 32
"""Connections to the API server that are kept open at most."""


@dataclass(frozen=True)
class Access:
    """One loading of the credentials."""

    configuration: "Configuration"
    namespace: str
    """The context's; ``default`` where it names none."""
    slow: bool
    """Renewing the credentials may run a program or ask a server."""

    def __repr__(self) -> str:
        return f"Access({self.configuration.host})"

    def authorization(self) -> str | None:
        """The header's value now; renews a token that is due.

        :raises Exception: it cannot be renewed.
        """
        setting: Any = self.configuration.auth_settings().get("BearerToken")
        value = setting["value"] if setting else None
        return value.strip() if value else None

    def redactor(self) -> Redactor:
        """Knows the secrets of this loading."""
        found = [str(value) for value in self.configuration.api_key.values() if value]
        found += [part for value in found for part in value.split()]
        proxy = self.configuration.proxy or ""
        return Redactor([*found, *_userinfo(proxy)])


def loader(
    kubeconfig: Path | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> Callable[[], Access]:
    """How to load the credentials, now and after they were refused.

    With neither argument: what ``KUBECONFIG`` names, else the Pod's service account where one is
    mounted, else ``~/.kube/config``.
    """
    named = environment.get("KUBECONFIG") or None
    mounted = (SERVICE_ACCOUNT / "token").exists() and "KUBERNETES_SERVICE_HOST" in environment
    if kubeconfig is None and context is None and named is None and mounted:
        return _in_cluster
    paths = str(kubeconfig) if kubeconfig is not None else named or "~/.kube/config"
    return lambda: _from_kubeconfig(paths, context)


def _in_cluster() -> Access:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        namespace = (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except (ConfigException, OSError) as error:
        raise Unreachable(f"the Pod's service account cannot be used: {error}") from None
    return Access(_settled(configuration), namespace or "default", slow=False)


def _from_kubeconfig(paths: str, context: str | None) -> Access:
    from kubernetes.client import Configuration
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    configuration = Configuration()
    complaints = _Complaints()
    logging.getLogger().addFilter(complaints)
    try:
        merged = KubeConfigMerger(paths).config  # type: ignore[no-untyped-call]
        if merged is None:
            raise UsageError(f"there is no kubeconfig (--kubeconfig={paths})", field="--kubeconfig")
        found: Any = KubeConfigLoader(  # type: ignore[no-untyped-call]
            config_dict=merged, config_base_path=None, active_context=context
        )
        chosen, user = _context(found, merged)
        found.load_and_set(configuration)
    except PtahkError:
        raise
    except Exception as error:
        text = f"the kubeconfig cannot be used (--kubeconfig={paths}): {_why(error)}"
        raise UsageError(text, field="--kubeconfig") from None
    finally:
        logging.getLogger().removeFilter(complaints)
    if "exec" in user and not configuration.api_key and configuration.cert_file is None:
        raise Unreachable(f"the kubeconfig's exec plugin gave no credentials: {complaints.text}")
    slow = "exec" in user or "auth-provider" in user
    return Access(_settled(configuration), chosen.get("namespace") or "default", slow)


def _why(error: Exception) -> str:
    """What is wrong with a kubeconfig, without quoting it: what is quoted may be a credential."""
    from kubernetes.config import ConfigException

    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}"
    if isinstance(error, ConfigException):
        # "Expected key K in N": N holds the whole entry, with its token.
        return Redactor().text(str(error).partition(" in ")[0], 300)
    return type(error).__name__


def _context(found: Any, merged: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The chosen context and its user, as written."""
    chosen = found.current_context["context"]
    named = chosen.get("user")
    for item in merged.value.get("users") or ():
        written = getattr(item, "value", item)
        if written["name"] == named:
            return chosen, written.get("user") or {}
    return chosen, {}


class _Complaints(logging.Filter):
    """Keeps what the official client only logs about an exec plugin, and shows it once."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.text = Redactor().text(record.getMessage(), 300)
        return False


def _settled(configuration: Any) -> Any:
    """The configuration with what never depends on a file: no retries, no debug output."""
    configuration.retries = False
    configuration.connection_pool_maxsize = POOL_SIZE
    configuration.keep_alive = True
    proxy = configuration.proxy
    for userinfo in _userinfo(proxy or ""):
        from urllib3.util import make_headers

        if configuration.proxy_headers is None and ":" in userinfo:
            configuration.proxy_headers = make_headers(proxy_basic_auth=userinfo)
    return configuration


def _userinfo(url: str) -> list[str]:
    """``user:password`` of a URL and its password."""
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    if parts.password is None:
        return []
    return [f"{unquote(parts.username or '')}:{unquote(parts.password)}", parts.password]
