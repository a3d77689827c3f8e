//! What a person sees once the ports answer: the commands to try.

use std::net::SocketAddr;

use crate::config::{ADMIN, Auth, Config, KafkaTls};
use crate::units::HostPort;

/// Where the ports are, as bound (a port 0 in the settings is a free one by now).
#[derive(Clone, Debug)]
pub struct BoundPorts {
    /// At least one.
    pub kafka: Vec<SocketAddr>,
    pub pg: SocketAddr,
    pub http: SocketAddr,
}

/// The text. Its first line is what scripts wait for.
pub fn text(config: &Config, ports: &BoundPorts) -> String {
    let kafka = reachable(ports.kafka[0]);
    let pg = reachable(ports.pg);
    let topic = if config.demo { "demo" } else { "events" };
    let mut flags = if kafka.port == 9092 { String::new() } else { format!(" --bootstrap {kafka}") };
    flags.push_str(login(config));
    if config.kafka.tls == KafkaTls::Required {
        flags.push_str(" --tls");
    }
    let server = if pg.port == 5432 { String::new() } else { format!(" --server {pg}") };
    let mut text = format!(
        "strandline is ready: Kafka on {}, Postgres on {}, HTTP on {}, data in {}\n",
        ports.kafka[0], ports.pg, ports.http, config.data
    );
    for (address, port) in ports.kafka.iter().zip(config.kafka.ports()).skip(1) {
        let tls = if port.1.tls == KafkaTls::Required { " with TLS" } else { "" };
        text.push_str(&format!("Kafka also on {address}{tls}\n"));
    }
    text.push_str("\nTry, in another terminal:\n");
    if !config.demo {
        text.push_str(&format!(
            "  echo '{{\"level\": \"info\", \"message\": \"hello\"}}' | strandline produce {topic}{flags}\n"
        ));
        // With users or TLS it would need a line of settings.
        if config.auth != Auth::Required && config.kafka.tls == KafkaTls::Off {
            text.push_str(&format!(
                "  echo '{{\"level\": \"warn\", \"message\": \"again\"}}' | kcat -b {kafka} -P -t {topic}\n"
            ));
        }
    }
    text.push_str(&format!("  strandline tail {topic} --from beginning{flags}\n"));
    let user = if config.auth == Auth::Required { format!(" -U {ADMIN}") } else { String::new() };
    text.push_str(&format!(
        "  psql -h {} -p {}{user} -d strandline -c \"SELECT ts, level, message FROM {topic} ORDER BY ts DESC LIMIT 5\"\n",
        pg.host, pg.port
    ));
    text.push_str(&format!(
        "  strandline sql{server}{} \"SELECT count(*) FROM {topic}\"\n\nCtrl-C stops it.\n",
        login(config)
    ));
    text
}

/// Who a command is, where that is asked for.
fn login(config: &Config) -> &'static str {
    if config.auth == Auth::Required { " --user admin" } else { "" }
}

/// An address that a command on this machine can use.
fn reachable(address: SocketAddr) -> HostPort {
    if address.ip().is_unspecified() {
        return HostPort::loopback(address.port());
    }
    HostPort { host: address.ip().to_string(), port: address.port() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(kafka: &str, pg: &str) -> BoundPorts {
        let address = |text: &str| text.parse().expect("an address");
        BoundPorts { kafka: vec![address(kafka)], pg: address(pg), http: address("127.0.0.1:8080") }
    }

    #[test]
    fn usual_ports_need_no_flags_in_the_commands() {
        let text = text(&Config::default(), &ports("127.0.0.1:9092", "127.0.0.1:5432"));
        assert!(text.contains("| strandline produce events\n"), "{text}");
        assert!(!text.contains("--bootstrap") && !text.contains("--server"), "{text}");
    }

    #[test]
    fn commands_say_who_they_are_where_that_is_asked_for() {
        let config = Config { auth: Auth::Required, ..Config::default() };
        let text = text(&config, &ports("127.0.0.1:9092", "127.0.0.1:5432"));
        for line in
            ["| strandline produce events --user admin\n", " -U admin -d", "sql --user admin \"SELECT"]
        {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("kcat"), "{text}");
    }

    #[test]
    fn other_ports_are_in_every_command_that_needs_them() {
        let text = text(&Config::default(), &ports("0.0.0.0:19092", "127.0.0.1:15432"));
        assert!(text.contains("tail events --from beginning --bootstrap 127.0.0.1:19092\n"), "{text}");
        assert!(text.contains("-p 15432 "), "{text}");
        assert!(text.contains("sql --server 127.0.0.1:15432 "), "{text}");
    }
}
