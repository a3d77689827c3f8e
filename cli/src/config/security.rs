//! Who may come in and how that is proven: authentication, TLS, and the ports of the Kafka protocol.

use serde::{Deserialize, Deserializer, Serialize};
use strandline_storage::access::{Authorizer, WithoutRules};

use super::{Config, KafkaConfig};
use crate::failure::Failure;
use crate::units::HostPort;

/// What Kafka's rules have before the name of a user.
const PRINCIPAL_PREFIX: &str = "User:";

/// Who may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Any user name, but from this machine only: the ports have to be on loopback addresses
    Loopback,
    /// Anyone who reaches the ports
    None,
    /// Users that prove who they are; rules say what each may do
    Required,
}

/// The files of TLS, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// The server's certificate, and those between it and its authority.
    pub certificate: Option<String>,
    pub key: Option<String>,
    /// The authorities whose certificates clients may show.
    pub client_ca: Option<String>,
}

/// Whether a Kafka port speaks TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KafkaTls {
    #[default]
    Off,
    Required,
}

/// Whether the Postgres port speaks TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PgTls {
    Off,
    Optional,
    Required,
}

/// Whether clients show a certificate of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    #[default]
    None,
    Optional,
    Required,
}

/// A Kafka port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerConfig {
    pub listen: HostPort,
    /// What clients are told to come back to; the address that they came to if it is not set.
    #[serde(default)]
    pub advertise: Option<HostPort>,
    #[serde(default)]
    pub tls: KafkaTls,
    #[serde(default)]
    pub client_certificate: ClientCertificate,
}

impl KafkaConfig {
    /// All ports of the Kafka protocol with the keys that set them; the first is that of `kafka.listen`.
    pub fn ports(&self) -> Vec<(String, ListenerConfig)> {
        let first = ListenerConfig {
            listen: self.listen.clone(),
            advertise: self.advertise.clone(),
            tls: self.tls,
            client_certificate: self.client_certificate,
        };
        let more = self.listeners.iter().enumerate();
        let more = more.map(|(place, port)| (format!("kafka.listeners[{place}]"), port.clone()));
        std::iter::once(("kafka".to_owned(), first)).chain(more).collect()
    }
}

impl Config {
    /// How rules are looked at. `None`: everybody may do everything.
    pub fn authorizer(&self) -> Option<Authorizer> {
        let without_rules =
            if self.auth_allow_without_rules { WithoutRules::Allow } else { WithoutRules::Refuse };
        let authorizer = Authorizer { super_users: self.auth_super_users.0.clone(), without_rules };
        (self.auth == Auth::Required).then_some(authorizer)
    }

    /// Whether the Postgres port speaks TLS: if there is a certificate, unless it is told otherwise.
    pub fn pg_tls(&self) -> PgTls {
        let by_default = if self.tls.certificate.is_some() { PgTls::Optional } else { PgTls::Off };
        self.pg.tls.unwrap_or(by_default)
    }

    /// Refuses what would be unsafe or contradicts itself.
    pub(super) fn check_security(&self) -> Result<(), Failure> {
        self.check_exposure()?;
        self.tls.check_pair()?;
        if self.pg_tls() != PgTls::Off {
            self.tls.check_given("pg.tls")?;
        }
        for (name, port) in self.kafka.ports() {
            self.tls.check_port(&name, &port)?;
        }
        if let Some(name) = self.auth_super_users.0.iter().find(|name| name.starts_with(PRINCIPAL_PREFIX)) {
            let user = &name[PRINCIPAL_PREFIX.len()..];
            return Err(Failure::Usage(format!(
                "auth_super_users has \"{name}\"; it takes names of users: \"{user}\""
            )));
        }
        if self.admin_password.is_some() && self.auth != Auth::Required {
            return Err(Failure::Usage(
                "STRANDLINE_ADMIN_PASSWORD is set, and no port asks who somebody is; add --auth required, or do not \
                 set it"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn check_exposure(&self) -> Result<(), Failure> {
        if self.auth != Auth::Loopback {
            return Ok(());
        }
        let kafka = self.kafka.ports().into_iter().map(|(name, port)| (name, port.listen));
        let others = [("pg", &self.pg.listen), ("http", &self.http.listen)];
        let others = others.into_iter().map(|(name, address)| (name.to_owned(), address.clone()));
        match kafka.chain(others).find(|(_, address)| !address.is_loopback()) {
            Some((name, address)) => Err(Failure::Usage(format!(
                "{name}.listen is {address}, which other machines can reach, and nothing asks them who they are; \
                 listen on 127.0.0.1, add --auth required to ask for users and passwords, or add --no-auth to let \
                 anyone in"
            ))),
            None => Ok(()),
        }
    }
}

impl TlsConfig {
    fn check_pair(&self) -> Result<(), Failure> {
        let (set, missing) = match (&self.certificate, &self.key) {
            (Some(_), None) => ("tls.certificate", "tls.key"),
            (None, Some(_)) => ("tls.key", "tls.certificate"),
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!("{set} is set and {missing} is not; they go together")))
    }

    fn check_given(&self, wanted_by: &str) -> Result<(), Failure> {
        match self.certificate {
            Some(_) => Ok(()),
            None => Err(Failure::Usage(format!(
                "{wanted_by} asks for TLS, and there is no certificate; set tls.certificate and tls.key, or \
                 {wanted_by} = \"off\""
            ))),
        }
    }

    fn check_port(&self, name: &str, port: &ListenerConfig) -> Result<(), Failure> {
        if port.tls == KafkaTls::Required {
            self.check_given(&format!("{name}.tls"))?;
        }
        if port.client_certificate == ClientCertificate::None {
            return Ok(());
        }
        let needed = match (port.tls, &self.client_ca) {
            (KafkaTls::Off, _) => format!("{name}.tls = \"required\""),
            (KafkaTls::Required, None) => {
                "tls.client_ca, the file of the authority that signs them".to_owned()
            }
            (KafkaTls::Required, Some(_)) => return Ok(()),
        };
        Err(Failure::Usage(format!(
            "{name}.client_certificate asks clients for certificates; that needs {needed}"
        )))
    }
}

/// Names: a list, or a text for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        Ok(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(name) => Self(vec![name]),
            OneOrMany::Many(names) => Self(names),
        })
    }
}

#[cfg(test)]
mod tests;
