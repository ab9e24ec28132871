"""A client's properties: what Kafka's tools take is taken, what cannot be used is told with a remedy, and no value ever shows."""

from __future__ import annotations

import ssl
import traceback
from pathlib import Path

import pytest

from replica_audit.errors import UsageError
from replica_audit.storage.cluster.client_properties import Secret, read
from tests.describe.certificates import self_signed

SECRET = 's3cr3t-"x\\y'  # noqa: S105
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return path


def test_no_file_is_a_plain_connection() -> None:
    assert read(None) == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("lines", "mechanism"),
    [
        (f'sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username="ann" password="s3cr3t-\\\\"x\\\\\\\\y";', "PLAIN"),
        (f"sasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required \\\n  username=ann \\\n  password='s3cr3t-\"x\\\\\\\\y' ;", "PLAIN"),
        (
            f'sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} required password="s3cr3t-\\\\042x\\\\134y" username="ann";',
            "SCRAM-SHA-512",
        ),
        ('sasl.mechanism=SCRAM-SHA-256\nsasl.username=ann\nsasl.password=s3cr3t-"x\\\\y', "SCRAM-SHA-256"),
    ],
)
def test_logins(lines: str, mechanism: str, tmp_path: Path) -> None:
    settings = read(written(tmp_path, f"security.protocol=SASL_PLAINTEXT\n{lines}\nclient.id=nightly\n"))
    assert settings["security_protocol"] == "SASL_PLAINTEXT"
    assert settings["sasl_mechanism"] == mechanism
    assert settings["client_id"] == "nightly"
    assert settings["sasl_plain_username"].encode() == b"ann"
    assert settings["sasl_plain_password"].encode() == SECRET.encode()
    assert "\0".join(["u", settings["sasl_plain_password"]]) == f"u\0{SECRET}"
    assert "s3cr3t" not in f"{settings}{settings['sasl_plain_password']}"


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret("hunter2")
    shown = f"{secret}{secret!r}{secret!s}{secret:>20}" + str(secret) + "%s %r" % (secret, secret) + str([secret])  # noqa: UP031
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("security.protocol=other", "security.protocol must be one of"),
        ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism GSSAPI is not supported"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "OAUTHBEARER is not supported"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=other", "sasl.mechanism must be one of"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "no username"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u", "no password"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=${file:/s3cr3t:p}", "configuration provider"),
        (
            f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username="u" password="s3cr3t"',
            "semicolon",
        ),
        (
            f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username="u" password="s3cr3t;',
            "not of the form",
        ),
        (f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username "s3cr3t";', "its options"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x.Krb5LoginModule required a=s3cr3t;",
            "must be a PlainLoginModule",
        ),
        ("security.protocol=SSL\nssl.truststore.location=/t.jks\nssl.truststore.password=s3cr3t", "keytool"),
        ("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such.pem", "no such file"),
        ("security.protocol=SSL\nssl.truststore.certificates=s3cr3t", "give a file in PEM"),
        ("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=s3cr3t", "put chain and key into a PEM file"),
        ("security.protocol=SSL\nssl.keystore.location=/k.p12\nssl.keystore.type=PKCS12", "type PKCS12"),
    ],
)
def test_what_cannot_be_used_is_told_without_its_value(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"client\.properties") as caught:
        read(written(tmp_path, text))
    assert told in str(caught.value)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    of_product = [line for line in shown.splitlines() if "s3cr3t" in line and not line.lstrip().startswith("text = ")]
    assert not of_product, "neither the message nor a local variable of the product"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_a_file_that_is_none(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="properties file"):
        read(path)


def test_tls_of_pem_files(tmp_path: Path) -> None:
    pem = self_signed(tmp_path / "node.pem")
    stores = f"ssl.truststore.type=PEM\nssl.truststore.location={pem}\nssl.keystore.type=PEM\nssl.keystore.location={pem}\n"
    context = read(written(tmp_path, f"security.protocol=SSL\n{stores}"))["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1
    lax = read(written(tmp_path, f"security.protocol=SSL\n{stores}ssl.endpoint.identification.algorithm=\n"))["ssl_context"]
    assert not lax.check_hostname
    assert lax.verify_mode is ssl.CERT_REQUIRED


def test_certificates_in_the_properties_themselves(tmp_path: Path) -> None:
    pem = self_signed(tmp_path / "node.pem").read_text()
    certificate = pem[pem.index("-----BEGIN CERTIFICATE") :].strip().replace("\n", "\\n")
    context = read(written(tmp_path, f"security.protocol=SSL\nssl.truststore.certificates={certificate}\n"))["ssl_context"]
    assert len(context.get_ca_certs()) == 1


def test_an_encrypted_key_needs_its_password_and_nobody_is_asked_for_it(tmp_path: Path) -> None:
    pem = self_signed(tmp_path / "node.pem", password="s3cr3t")  # noqa: S106
    stores = f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={pem}\n"
    assert read(written(tmp_path, f"{stores}ssl.key.password=s3cr3t\n"))["ssl_context"]
    for wrong in ("", "ssl.key.password=wrong\n"):
        with pytest.raises(UsageError, match=r"ssl\.key\.password") as caught:
            read(written(tmp_path, stores + wrong))
        assert "wrong" not in str(caught.value)
