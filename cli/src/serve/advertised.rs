//! Whether the addresses that Kafka clients are told to come back to can be right: a client that is sent
//! to the wrong one connects, asks once, and then seems to hang.
//!
//! Names are looked up beside the start, which waits for none of it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{UdpSocket, lookup_host};
use tokio::time::timeout;

use super::listeners::KafkaPort;
use crate::units::HostPort;

const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// An address to look at, with what sets it.
pub struct Advertised {
    address: HostPort,
    set_by: String,
}

/// The addresses that the settings name.
pub fn of_ports(ports: &[KafkaPort]) -> Vec<Advertised> {
    let named = |port: &KafkaPort| {
        let address = port.config.advertise.clone()?;
        let flag = if port.name == "kafka" { "--kafka-advertise or " } else { "" };
        Some(Advertised { address, set_by: format!("{flag}{}.advertise", port.name) })
    };
    ports.iter().filter_map(named).collect()
}

/// Says in the log which addresses cannot be right, or are right only for some clients.
pub async fn warn(addresses: Vec<Advertised>) {
    for advertised in addresses {
        if let Some(doubt) = doubt(&advertised.address).await {
            let Advertised { address, set_by } = advertised;
            tracing::warn!("Kafka clients are told to connect to {address}, {doubt}; {set_by} sets it");
        }
    }
}

/// What speaks against an address. `None`: nothing.
async fn doubt(address: &HostPort) -> Option<String> {
    let lookup = lookup_host((address.host.as_str(), address.port));
    let found: Vec<SocketAddr> = match timeout(LOOKUP_TIMEOUT, lookup).await {
        Ok(Ok(found)) => found.collect(),
        Ok(Err(error)) => return Some(format!("which does not resolve here ({error})")),
        Err(_) => return Some(format!("which did not resolve here in {} s", LOOKUP_TIMEOUT.as_secs())),
    };
    for found in &found {
        if found.ip().is_loopback() || is_here(found.ip()).await {
            return None;
        }
    }
    let found: Vec<String> = found.iter().map(|found| found.ip().to_string()).collect();
    Some(format!(
        "which is {} and no address of this machine: right only if something there forwards to this server",
        found.join(", ")
    ))
}

/// Whether an address is one of this machine's: only such can be bound.
async fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn doubt_about(address: &str) -> Option<String> {
        doubt(&address.parse().expect("an address")).await
    }

    #[tokio::test]
    async fn addresses_of_other_machines_are_doubted() {
        // Of RFC 5737: nobody has it.
        let doubt = doubt_about("192.0.2.1:9092").await.expect("a doubt");
        assert!(doubt.contains("192.0.2.1") && doubt.contains("forwards"), "{doubt}");
        let doubt = doubt_about("no-such-name.invalid:9092").await.expect("a doubt");
        assert!(doubt.contains("does not resolve"), "{doubt}");
    }

    #[tokio::test]
    async fn addresses_of_this_machine_are_not() {
        for address in ["127.0.0.1:9092", "localhost:9092", "127.1.2.3:9092"] {
            assert_eq!(doubt_about(address).await, None, "{address}");
        }
    }
}
