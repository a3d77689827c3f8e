//! librdkafka as producer and consumer, through the crate rdkafka.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::StreamConsumer;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::FutureProducer;
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

/// The values of messages as text.
pub fn values(messages: &[OwnedMessage]) -> Vec<String> {
    let text =
        |message: &OwnedMessage| String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
    messages.iter().map(text).collect()
}
