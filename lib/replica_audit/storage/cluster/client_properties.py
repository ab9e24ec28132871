"""Connection settings from the properties file that Kafka's own clients and tools take (`--command-config`).

Understood: security.protocol, sasl.mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), sasl.jaas.config or sasl.username and sasl.password,
ssl.truststore.* and ssl.keystore.* of type PEM, ssl.key.password, ssl.endpoint.identification.algorithm, client.id. Other keys are left
alone, as Kafka's tools do. Sources: SaslConfigs, SslConfigs, JaasConfig, DefaultSslEngineFactory (4.3).

No error, repr or log line holds a value of the file.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica_audit.errors import InputError, UsageError
from replica_audit.formats.log_dir.server_properties import properties
from replica_audit.formats.log_dir.small_files import SETTINGS_LIMIT, whole_content

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES = ("PlainLoginModule", "ScramLoginModule")
_JAAS_TOKEN = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'|([^\s=;"\']+)|([=;]))', re.DOTALL)
_JAAS_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_JAAS_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Secret(str):
    """A text that its repr hides, and so every traceback, log line and printed setting."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return a placeholder."""
        return "'[hidden]'"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        """Return a placeholder."""
        return repr(self)


def read(path: Path | None) -> dict[str, Any]:
    """Return a client's properties as settings of kafka-python; without a file, those of a plain connection.

    Raises:
        UsageError: the file cannot be read, or asks for something that cannot be done; it says what to do instead.
    """
    if path is None:
        return {"security_protocol": "PLAINTEXT"}
    try:
        values = {key: Secret(value) for key, (_line, value) in properties(whole_content(path, SETTINGS_LIMIT, may_be_pipe=True)).items()}
    except OSError as error:
        raise UsageError(f"--command-config {path}: {error.strerror or error}; give a readable properties file") from None
    except InputError as error:
        raise UsageError(f"--command-config {path}: {error.reason}; give a properties file as Kafka's own tools take it") from None
    return _Settings(path, values).made()


class _Settings:
    def __init__(self, path: Path, values: Mapping[str, Secret]) -> None:
        self.path, self.values = path, values

    def made(self) -> dict[str, Any]:
        protocol = self._open("security.protocol", "PLAINTEXT").upper()
        self._known("security.protocol", protocol, PROTOCOLS)
        made: dict[str, Any] = {"security_protocol": protocol}
        if client := self._open("client.id"):
            made["client_id"] = client
        if protocol.startswith("SASL_"):
            made |= self._sasl()
        if protocol.endswith("SSL"):
            made["ssl_context"] = self._ssl_context()
        return made

    def _open(self, key: str, default: str = "") -> str:
        """Return a value that is not a secret as ordinary text."""
        return "".join(self.values.get(key, "")) or default

    def _wrong(self, reason: str) -> UsageError:
        return UsageError(f"--command-config {self.path}: {reason}")

    def _known(self, key: str, value: str, known: tuple[str, ...]) -> None:
        if value.startswith("${"):
            raise self._wrong(f"{key} comes from a configuration provider, which only Java clients have; write its value")
        if value not in known:
            raise self._wrong(f"{key} must be one of {', '.join(known)}")

    # ------------------------------------------------------------------------------------------------------------ SASL

    def _sasl(self) -> dict[str, Any]:
        mechanism = self._open("sasl.mechanism", "GSSAPI")  # Kafka's default
        if mechanism in ("GSSAPI", "OAUTHBEARER"):
            raise self._wrong(
                f"sasl.mechanism {mechanism} is not supported; use a principal that logs in with one of {', '.join(MECHANISMS)}"
            )
        self._known("sasl.mechanism", mechanism, MECHANISMS)
        jaas = self.values.get("sasl.jaas.config")
        login = self._jaas(jaas) if jaas else {"username": self.values.get("sasl.username"), "password": self.values.get("sasl.password")}
        for name in ("username", "password"):
            value = login.get(name)
            if not value:
                raise self._wrong(f"no {name}: give it in sasl.jaas.config, as for Kafka's own tools")
            if value.startswith("${"):
                raise self._wrong(f"the {name} comes from a configuration provider, which only Java clients have; write its value")
        return {"sasl_mechanism": mechanism, "sasl_plain_username": login["username"], "sasl_plain_password": login["password"]}

    def _jaas(self, text: Secret) -> dict[str, Secret]:
        """The options of the login module: `CLASS required key="value" … ;`."""
        tokens = _jaas_tokens(text)
        if tokens is None:
            raise self._wrong('sasl.jaas.config is not of the form CLASS required username="…" password="…";')
        if len(tokens) < 3 or tokens[-1] != ";" or not tokens[0].endswith(_MODULES) or tokens[1] not in ("required", "requisite"):
            raise self._wrong(f"sasl.jaas.config must be a {' or '.join(_MODULES)} that is required, and end in a semicolon")
        options = tokens[2:-1]
        if len(options) % 3 or any(equals != "=" for equals in options[1::3]):
            raise self._wrong('sasl.jaas.config: its options are not of the form name="value"')
        return {"".join(name): value for name, value in zip(options[::3], options[2::3], strict=True)}

    # ------------------------------------------------------------------------------------------------------------- TLS

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # an empty algorithm turns the check of the host's name off, in Kafka too
        context.check_hostname = "".join(self.values.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
        trusted, inline = self._pem_store("ssl.truststore"), self.values.get("ssl.truststore.certificates")
        try:
            if trusted:
                context.load_verify_locations(cafile=trusted)
            elif inline:
                context.load_verify_locations(cadata=inline)
            else:
                context.load_default_certs()
        except (OSError, ValueError) as error:
            raise self._wrong(f"ssl.truststore: its certificates cannot be read ({_kind(error)}); give a file in PEM") from None
        if self.values.get("ssl.keystore.key"):
            raise self._wrong("ssl.keystore.key cannot be used: put chain and key into a PEM file, and name it as ssl.keystore.location")
        if own := self._pem_store("ssl.keystore"):
            # without a callback OpenSSL would ask at the terminal
            password = "".join(self.values.get("ssl.key.password") or self.values.get("ssl.keystore.password") or "")
            try:
                context.load_cert_chain(own, password=lambda: password)
            except (OSError, ValueError) as error:
                reason = f"{_kind(error)}; it needs the certificate chain, the private key and, if that is encrypted, ssl.key.password"
                raise self._wrong(f"ssl.keystore.location cannot be used ({reason})") from None
        return context

    def _pem_store(self, prefix: str) -> str:
        """The file of a key or trust store; empty if there is none."""
        location = self._open(f"{prefix}.location")
        kind = self._open(f"{prefix}.type", "JKS").upper()  # Kafka's default
        if location and kind != "PEM":
            raise self._wrong(
                f"{prefix}.location is a store of type {kind if kind.isalnum() else '?'}, which only Java reads; export it with keytool "
                f"-importkeystore to PKCS12 and openssl pkcs12 -nodes to a PEM file, name that, and set {prefix}.type=PEM"
            )
        return location


def _kind(error: Exception) -> str:
    """Describe what is wrong with a file without quoting it."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return (getattr(error, "strerror", None) or "not PEM").lower()


def _jaas_tokens(text: Secret) -> list[Secret] | None:
    """Words, quoted texts and signs, as JaasConfig reads them; None if they are none. Raises nothing: a stack would show the text."""
    tokens, at, source = [], 0, "".join(text).rstrip()
    while at < len(source):
        match = _JAAS_TOKEN.match(source, at)
        if match is None:
            return None
        quoted = match[1] if match[1] is not None else match[2]
        tokens.append(Secret(_unescaped(quoted)) if quoted is not None else Secret(match[3] or match[4]))
        at = match.end()
    return tokens


def _unescaped(text: str) -> str:
    """As java.io.StreamTokenizer reads a quoted text."""
    return _JAAS_ESCAPE.sub(lambda m: chr(int(m[1], 8)) if m[1].isdigit() and m[1] < "8" else _JAAS_ESCAPES.get(m[1], m[1]), text)
