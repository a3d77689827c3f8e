//! Names of topics and columns: exact, or the only one that can be meant, never another one.

use strandline_storage::format::Compression;

use crate::raw::{RawClient, RawRecord, batch};
use crate::server::{Server, from_memory_wal_and_segments};
use crate::sql::{Sql, cells};

const UNDEFINED_TABLE: &str = "42P01";
const AMBIGUOUS_COLUMN: &str = "42702";

#[tokio::test(flavor = "multi_thread")]
async fn every_topic_name_is_a_table_when_quoted() {
    let mut server = Server::start();
    let long = "n".repeat(249);
    let names = ["a.b.c", "frog-hops", "Orders", "orders", "1st", "select", &long];
    let mut client = RawClient::connect(server.kafka);
    for name in names {
        client.create_topic(name, 1, &[]);
        client.produce_ok(name, 0, batch(Compression::None, &[RawRecord::at(1, name)]));
    }
    client.create_topic("__consumer_offsets", 1, &[]);
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        for name in names {
            assert_eq!(sql.text(&format!("SELECT _value FROM \"{name}\"")).await, name);
        }
        assert_eq!(sql.text("SELECT _value FROM orders").await, "orders");
        assert_eq!(sql.text("SELECT _value FROM ORDERS").await, "orders");
        assert_eq!(sql.text("SELECT count(*) FROM internal.__consumer_offsets").await, "0");
        assert_eq!(sql.sqlstate("SELECT 1 FROM frog_hops").await, UNDEFINED_TABLE);
        let listed =
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
        let mut expected = names.to_vec();
        expected.sort_unstable();
        let mut listed: Vec<String> = sql.column(listed).await.into_iter().flatten().collect();
        listed.sort_unstable();
        assert_eq!(listed, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_is_the_one_that_was_named() {
    let mut server = Server::start();
    let mut client = RawClient::connect(server.kafka);
    client.create_topic("columns", 1, &[]);
    let value = r#"{"userId": 1, "USERID": 2, "1xx": 3, "hg.nginx.org": 4, "$type": "five", "Alone": 6}"#;
    client.produce_ok("columns", 0, batch(Compression::None, &[RawRecord::at(1, value)]));
    from_memory_wal_and_segments(&mut server, async |server| {
        let sql = Sql::connect(server).await;
        let quoted = r#"SELECT "userId", "USERID", "1xx", "hg.nginx.org", "$type", "Alone" FROM columns"#;
        assert_eq!(sql.rows(quoted).await, [cells(&["1", "2", "3", "4", "five", "6"])]);
        assert_eq!(sql.text("SELECT alone FROM columns").await, "6");
        assert_eq!(sql.sqlstate("SELECT userid FROM columns").await, AMBIGUOUS_COLUMN);
        let by_path = "SELECT _value ->> 'hg.nginx.org' FROM columns";
        assert_eq!(sql.text(by_path).await, "4");
    })
    .await;
}
