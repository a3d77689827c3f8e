//! The corpus of the fuzz target: valid requests of every API in every version, all of which are answered.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::Decodable;
use uuid::Uuid;

use crate::panics::NoPanics;
use crate::requests::{Api, Stream, streams};
use crate::target::{TOPIC, Target, frame};

/// Produce is advertised from version 0 on, which is never sent, and served from this one on.
const PRODUCE_MIN: i16 = 3;

pub(crate) fn correlation_id(mut answer: Bytes) -> i32 {
    answer.get_i32()
}

/// What is served, by the answer to ApiVersions.
pub(crate) async fn served(target: &Target) -> Vec<Api> {
    let request = frame(0, 1, &ApiVersionsRequest::default());
    let mut answer = target.run(&[&[0][..], &request].concat()).await.remove(0);
    answer.advance(4);
    let answer = ApiVersionsResponse::decode(&mut answer, 0).expect("version 0 is served");
    let apis = answer.api_keys.into_iter().map(|api| {
        let key = ApiKey::try_from(api.api_key).expect("the codec knows what is served");
        let min = if key == ApiKey::Produce { PRODUCE_MIN } else { api.min_version };
        Api { key, versions: min..=api.max_version }
    });
    apis.collect()
}

pub(crate) fn topic_id(target: &Target) -> Uuid {
    target.log.snapshot().topic(TOPIC).expect("the target has it").id.as_uuid()
}

async fn all_streams() -> Vec<Stream> {
    let target = Target::start().await;
    let streams = streams(&served(&target).await, topic_id(&target));
    target.stop().await;
    streams
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/kafka_connection")
}

/// The committed files, by name.
pub(crate) fn files() -> BTreeMap<String, Vec<u8>> {
    let read = fs::read_dir(directory()).expect("the target has a corpus");
    let files = read.map(|entry| {
        let entry = entry.expect("the directory can be read");
        let bytes = fs::read(entry.path()).expect("a file of a corpus can be read");
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    });
    files.collect()
}

#[tokio::test]
async fn every_api_is_answered_in_every_version() {
    let panics = NoPanics::from_now_on();
    let target = Target::start().await;
    for stream in all_streams().await {
        let answers = target.run(&stream.input()).await;
        // A token of PLAIN that is no request is answered with an empty one.
        let requests = answers.into_iter().filter(|answer| !answer.is_empty());
        let answered: Vec<_> = requests.map(correlation_id).collect();
        assert_eq!(answered, stream.correlation_ids, "{}: all are answered, in their order", stream.name);
        panics.check(&stream.name);
    }
    target.stop().await;
    panics.check("the end");
}

#[tokio::test]
async fn the_corpus_is_what_is_served() {
    let files = files();
    for stream in all_streams().await {
        let found = files.get(&stream.name);
        let anew = "write the corpus anew: cargo test -p strandline-kafka-gateway --test abuse -- --ignored";
        assert!(found.is_some_and(|bytes| *bytes == stream.input()), "{}: {anew}", stream.name);
    }
}

#[tokio::test]
#[ignore = "writes the corpus anew"]
async fn write_the_corpus() {
    fs::create_dir_all(directory()).expect("the tree can be written");
    for stream in all_streams().await {
        fs::write(directory().join(&stream.name), stream.input()).expect("the tree can be written");
    }
}
