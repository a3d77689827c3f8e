//! Servers on an S3 server over HTTP: what they ask of it, and that a second one takes over safely.

use std::time::Duration;

use strandline_s3_mock::{MockOptions, S3Mock};
use strandline_storage::format::Compression;

use crate::raw::{FetchLimits, RawClient, RawRecord, batch, records};
use crate::server::Server;
use crate::sql::Sql;

const TOPIC: &str = "events";
const BOUND: Duration = Duration::from_secs(120);

async fn start() -> (S3Mock, Vec<(&'static str, String)>) {
    let mock = S3Mock::start(MockOptions::default()).await.expect("a port is free");
    let environment = vec![
        ("STRANDLINE_S3_ENDPOINT", mock.endpoint()),
        ("STRANDLINE_S3_ALLOW_HTTP", "true".to_owned()),
        ("STRANDLINE_S3_PATH_STYLE", "true".to_owned()),
        ("STRANDLINE_S3_REGION", "us-east-1".to_owned()),
        ("STRANDLINE_S3_ACCESS_KEY_ID", "test".to_owned()),
        ("STRANDLINE_S3_SECRET_ACCESS_KEY", "test".to_owned()),
        ("STRANDLINE_STORAGE_LINGER", "25ms".to_owned()),
    ];
    (mock, environment)
}

fn produce(client: &mut RawClient, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let value = format!("v{number}");
        let record = RawRecord::at(1_700_000_000_000 + number, &value);
        assert_eq!(client.produce_ok(TOPIC, 0, batch(Compression::None, &[record])), number);
    }
}

fn stored(client: &mut RawClient) -> Vec<String> {
    let fetched = records(&client.fetch(TOPIC, 0, FetchLimits::from(0)));
    fetched
        .into_iter()
        .map(|record| String::from_utf8(record.value.unwrap_or_default()).expect("text"))
        .collect()
}

fn expected(count: i64) -> Vec<String> {
    (0..count).map(|number| format!("v{number}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_takes_over_and_the_first_one_stops_and_names_it() {
    take_over("1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_takes_over_all_shards() {
    take_over("4").await;
}

async fn take_over(shards: &str) {
    let (mock, mut environment) = start().await;
    environment.push(("STRANDLINE_STORAGE_SHARDS", shards.to_owned()));
    let mut first = Server::start_on("s3://bucket/a", &environment);
    let mut client = RawClient::connect(first.kafka);
    client.create_topic(TOPIC, 4, &[]);
    produce(&mut client, 0..20);

    let second = Server::start_on("s3://bucket/a", &environment);
    let mut new_client = RawClient::connect(second.kafka);
    assert_eq!(stored(&mut new_client), expected(20), "all that was acknowledged is there");
    produce(&mut new_client, 20..25);

    // The first server learns of it by its next commit, which must not be acknowledged.
    let late = RawRecord::at(1_700_000_000_000, "late");
    let response = client.produce(TOPIC, 3, batch(Compression::None, &[late]));
    assert_ne!(response.error_code, 0);
    let ended = async {
        let mut pause = tokio::time::interval(Duration::from_millis(20));
        while !first.has_ended() {
            pause.tick().await;
        }
    };
    tokio::time::timeout(BOUND, ended).await.expect("the first server stops");
    let said = first.error_output();
    assert!(said.contains("has taken over") && said.contains(&second.kafka.to_string()), "{said}");
    assert_eq!(stored(&mut new_client), expected(25));
    let sql = Sql::connect(&second).await;
    assert_eq!(sql.value(&format!("SELECT count(*) FROM {TOPIC}")).await, Some("25".to_owned()));
    drop(mock);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_one_request_and_an_idle_server_makes_none() {
    let (mock, environment) = start().await;
    let server = Server::start_on("s3://bucket/a", &environment);
    let mut client = RawClient::connect(server.kafka);
    client.create_topic(TOPIC, 1, &[]);
    mock.reset_counts();
    produce(&mut client, 0..10);
    let counts = mock.counts();
    assert_eq!((counts.puts, counts.requests()), (10, 10), "{counts:?}");
    assert_eq!(stored(&mut client), expected(10));
    assert_eq!(mock.counts().requests(), 10, "what is new is read from memory");
    let idle = tokio::time::timeout(Duration::from_secs(5), std::future::pending::<()>());
    idle.await.expect_err("nothing happens");
    assert_eq!(mock.counts().requests(), 10, "an idle server asks for nothing");
}
