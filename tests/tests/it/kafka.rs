//! librdkafka as producer and consumer, through the crate rdkafka.

use std::time::Duration;

use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::FutureProducer;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::time::timeout;

/// How long one message may take to come.
pub const MESSAGE_BOUND: Duration = Duration::from_secs(60);

pub fn producer(bootstrap: &str, settings: &[(&str, &str)]) -> FutureProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("linger.ms", "5");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().expect("the settings are right")
}

pub fn consumer(bootstrap: &str, group: &str, settings: &[(&str, &str)]) -> StreamConsumer {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false");
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config.create().expect("the settings are right")
}

/// The next `count` messages.
pub async fn take(consumer: &StreamConsumer, count: usize) -> Vec<OwnedMessage> {
    let mut messages = Vec::with_capacity(count);
    while messages.len() < count {
        let message = timeout(MESSAGE_BOUND, consumer.recv()).await;
        let message = message.unwrap_or_else(|_| panic!("{} of {count} messages came", messages.len()));
        // What librdkafka reports here it gets over by itself; the bound holds all the same.
        if let Ok(message) = message {
            messages.push(message.detach());
        }
    }
    messages
}

/// All that a consumer of an isolation level gets from the partitions of a topic, to their ends.
pub async fn drain(
    bootstrap: &str,
    topic: &str,
    partitions: i32,
    isolation_level: &str,
) -> Vec<OwnedMessage> {
    let settings = [("isolation.level", isolation_level), ("enable.partition.eof", "true")];
    let consumer = consumer(bootstrap, "readers", &settings);
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("a valid offset");
    }
    consumer.assign(&assignment).expect("it can be assigned");
    let (mut messages, mut ends) = (Vec::new(), 0);
    while ends < partitions {
        match timeout(MESSAGE_BOUND, consumer.recv()).await.expect("something comes") {
            Ok(message) => messages.push(message.detach()),
            Err(KafkaError::PartitionEOF(_)) => ends += 1,
            // What librdkafka reports else it gets over by itself; the bound holds all the same.
            Err(_) => {}
        }
    }
    messages
}

/// The values of messages as text.
pub fn values(messages: &[OwnedMessage]) -> Vec<String> {
    let text =
        |message: &OwnedMessage| String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
    messages.iter().map(text).collect()
}
