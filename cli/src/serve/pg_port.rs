//! The Postgres port as its server is given it: who may come in, and by which kind of connection.

use std::sync::Arc;

use strandline_pgwire_server::{Authentication, PgSettings, PgTls as Tls, TlsMode};
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, PgTls};
use crate::tls::ServerTls;

pub fn pg_settings(config: &Config, tls: Option<&ServerTls>) -> PgSettings {
    let mode = match config.pg_tls() {
        PgTls::Off => None,
        PgTls::Optional => Some(TlsMode::Optional),
        PgTls::Required => Some(TlsMode::Required),
    };
    // The settings were checked: where TLS is asked for, there is a certificate.
    let tls = mode.zip(tls).map(|(mode, tls)| Tls { acceptor: TlsAcceptor::from(tls.pg()), mode });
    let authorizer = config.authorizer().map(Arc::new);
    PgSettings {
        connections_max: config.pg.connections_max,
        authentication: authorizer.map_or(Authentication::Any, Authentication::Required),
        tls,
        failed_authentication_delay: config.kafka.failed_authentication_delay.0,
        ..PgSettings::default()
    }
}
