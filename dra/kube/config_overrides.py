"""Values of a command line that replace those of a kubeconfig, with the names of client-go's ConfigOverrides."""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOverrides:
    """The values that replace those of a kubeconfig; an empty value replaces nothing."""

    context: str = ""
    cluster: str = ""
    user: str = ""
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    """Path, as the paths of the other certificates; a relative one is relative to the working directory."""

    client_certificate: str = ""
    client_key: str = ""
    token: str = field(default="", repr=False)
    impersonate_user: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()


NO_OVERRIDES: Final = ConfigOverrides()
