//! The Kafka ports as the gateway is given them: what each tells its clients and asks of them.

use std::net::SocketAddr;

use strandline_kafka_gateway::{Authentication, Listener, ListenerSettings, SaslMechanism};

use super::listeners::KafkaPort;
use crate::config::{Auth, Config, KafkaTls, ListenerConfig};
use crate::failure::Failure;
use crate::tls::ServerTls;

/// All Kafka ports.
///
/// # Errors
/// TLS that cannot be set up.
pub fn gateway_listeners(
    ports: Vec<KafkaPort>,
    config: &Config,
    tls: Option<&ServerTls>,
) -> Result<Vec<Listener>, Failure> {
    let listener = |port: KafkaPort| {
        let tls = match (port.config.tls, tls) {
            (KafkaTls::Required, Some(tls)) => Some(tls.kafka(port.config.client_certificate)?),
            // The settings were checked: where TLS is required, there is a certificate.
            (KafkaTls::Required, None) | (KafkaTls::Off, _) => None,
        };
        let advertised = port.config.advertise.as_ref();
        let settings = ListenerSettings {
            advertised: advertised.map(|address| (address.host.clone(), address.port)),
            tls,
            authentication: authentication(config, &port.config),
        };
        Ok(Listener { socket: port.socket, settings })
    };
    ports.into_iter().map(listener).collect()
}

fn authentication(config: &Config, port: &ListenerConfig) -> Authentication {
    if config.auth != Auth::Required {
        return Authentication::None;
    }
    let is_readable = port.tls == KafkaTls::Off && !port.listen.is_loopback();
    let plain_too = !is_readable || config.kafka.plain_without_tls;
    let offered = |mechanism: &SaslMechanism| plain_too || *mechanism != SaslMechanism::Plain;
    Authentication::Sasl(SaslMechanism::ALL.into_iter().filter(offered).collect())
}

/// Where the ports are, as bound.
///
/// # Errors
/// A port without an address.
pub fn addresses(ports: &[KafkaPort]) -> Result<Vec<SocketAddr>, Failure> {
    let address = |port: &KafkaPort| {
        port.socket.local_addr().map_err(|error| Failure::failed(format!("a port has no address: {error}")))
    };
    ports.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClientCertificate;
    use crate::units::HostPort;

    fn port(listen: &str, tls: KafkaTls) -> ListenerConfig {
        let listen: HostPort = listen.parse().expect("an address");
        ListenerConfig { listen, advertise: None, tls, client_certificate: ClientCertificate::None }
    }

    fn mechanisms(config: &Config, port: &ListenerConfig) -> Vec<&'static str> {
        match authentication(config, port) {
            Authentication::Sasl(mechanisms) => mechanisms.into_iter().map(SaslMechanism::name).collect(),
            Authentication::None => Vec::new(),
        }
    }

    #[test]
    fn passwords_are_not_taken_where_others_could_read_them() {
        let mut config = Config { auth: Auth::Required, ..Config::default() };
        let all = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
        let exposed = port("0.0.0.0:9092", KafkaTls::Off);
        assert_eq!(mechanisms(&config, &exposed), all[1..]);
        assert_eq!(mechanisms(&config, &port("127.0.0.1:9092", KafkaTls::Off)), all);
        assert_eq!(mechanisms(&config, &port("0.0.0.0:9092", KafkaTls::Required)), all);
        config.kafka.plain_without_tls = true;
        assert_eq!(mechanisms(&config, &exposed), all);
        config.auth = Auth::None;
        assert!(mechanisms(&config, &exposed).is_empty());
    }
}
