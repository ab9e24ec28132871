"""The laboratory with every kind of listener that clients log in at, and an authorizer."""

from __future__ import annotations

from pathlib import Path

from kafka.admin import KafkaAdminClient, UserScramCredentialUpsertion

from tests.describe.certificates import self_signed
from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.process import free_ports

ADMIN_PASSWORD, GUEST_PASSWORD = "adm1n-s3cr3t", "gu3st-s3cr3t"
SECRETS = ("s3cr3t", "czNjcjN0")  # also as base64 has it
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class SecuredLab(Lab):
    """Brokers that also listen for SASL without and with TLS, PLAIN and SCRAM-SHA-256. `admin` may do everything, `guest` nothing."""

    def __init__(self, line: str, *, brokers: int, parent: Path) -> None:
        super().__init__(line, brokers=brokers, parent=parent)
        self.pem = self_signed(self.root / "node.pem")
        ports = free_ports(2 * brokers)
        self.sasl = {"SASL_PLAINTEXT": ports[:brokers], "SASL_SSL": ports[brokers:]}
        for number, broker in enumerate(self.brokers.values()):
            listeners = [f"PLAINTEXT://{broker.address}"] + [f"{name}://127.0.0.1:{of[number]}" for name, of in self.sasl.items()]
            with (broker.folder / "server.properties").open("a") as stream:
                stream.write(self._settings(",".join(listeners)))

    def _settings(self, listeners: str) -> str:
        map_of_names = ",".join(f"{name}:{name}" for name in ("PLAINTEXT", *self.sasl))
        return f"""\
listeners={listeners}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{map_of_names}
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
plain.sasl.jaas.config={_PLAIN} user_admin="{ADMIN_PASSWORD}" user_guest="{GUEST_PASSWORD}";
listener.name.sasl_plaintext.plain.sasl.jaas.config={_PLAIN} user_admin="{ADMIN_PASSWORD}" user_guest="{GUEST_PASSWORD}";
listener.name.sasl_ssl.plain.sasl.jaas.config={_PLAIN} user_admin="{ADMIN_PASSWORD}" user_guest="{GUEST_PASSWORD}";
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={_SCRAM};
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={_SCRAM};
ssl.keystore.type=PEM
ssl.keystore.location={self.pem}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
allow.everyone.if.no.acl.found=false
log.retention.bytes=123456789
"""

    def add_scram_user(self, name: str, password: str) -> None:
        """Known from then on to brokers that follow the metadata."""

        def add(client: KafkaAdminClient) -> None:
            client.alter_user_scram_credentials([UserScramCredentialUpsertion(user=name, mechanism="SCRAM_SHA_256", password=password)])

        self.ask(add)

    def client_properties(self, folder: Path, protocol: str, mechanism: str, user: str, password: str) -> Path:
        """A file for Kafka's own tools."""
        module = _PLAIN if mechanism == "PLAIN" else _SCRAM
        path = folder / f"{protocol}-{mechanism}-{user}.properties"
        path.write_text(
            f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} \\\n  username="{user}" \\\n  password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.pem}\n"
        )
        return path

    def addresses(self, protocol: str = "PLAINTEXT", *brokers: int) -> str:
        """Of all brokers, or of some, as --bootstrap-server takes them."""
        ports = [broker.port for broker in self.brokers.values()] if protocol == "PLAINTEXT" else self.sasl[protocol]
        chosen = [port for broker, port in zip(self.brokers, ports, strict=True) if broker in (brokers or self.brokers)]
        return ",".join(f"127.0.0.1:{port}" for port in chosen)
