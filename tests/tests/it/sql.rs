//! A real Postgres client, with results as text.

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::server::Server;

pub struct Sql {
    client: Client,
}

impl Sql {
    pub async fn connect(server: &Server) -> Self {
        let (host, port) = (server.pg.ip(), server.pg.port());
        let settings = format!("host={host} port={port} user=test dbname=strandline connect_timeout=30");
        let (client, connection) =
            tokio_postgres::connect(&settings, NoTls).await.expect("the server listens");
        tokio::spawn(connection);
        Self { client }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The rows of a statement that has to succeed.
    pub async fn rows(&self, statement: &str) -> Vec<Vec<Option<String>>> {
        let messages = self.client.simple_query(statement).await;
        let messages = messages.unwrap_or_else(|error| panic!("{statement}: {}", told(&error)));
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        rows.map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()).collect()
    }

    /// The one value of a statement.
    pub async fn value(&self, statement: &str) -> Option<String> {
        let mut rows = self.rows(statement).await;
        assert_eq!(rows.len(), 1, "{statement}");
        assert_eq!(rows[0].len(), 1, "{statement}");
        rows.remove(0).remove(0)
    }

    /// The one value of a statement, which is not NULL.
    pub async fn text(&self, statement: &str) -> String {
        self.value(statement).await.unwrap_or_else(|| panic!("{statement} is NULL"))
    }

    /// The first column of all rows.
    pub async fn column(&self, statement: &str) -> Vec<Option<String>> {
        self.rows(statement).await.into_iter().map(|mut row| row.remove(0)).collect()
    }

    /// The SQLSTATE of a statement that has to fail.
    pub async fn sqlstate(&self, statement: &str) -> String {
        let error = self.client.simple_query(statement).await.expect_err(statement);
        error.code().unwrap_or_else(|| panic!("{statement}: {error}")).code().to_owned()
    }
}

fn told(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |refusal| refusal.to_string())
}

/// Text cells, for comparing with rows.
pub fn cells(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}
