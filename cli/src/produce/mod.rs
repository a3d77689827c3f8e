//! `strandline produce`: lines in, records out.
//!
//! Lines that cannot be taken are named with their number and the reason, and do not stop the
//! others. The server refusing a whole batch does: what comes after it could not keep its place.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use strandline_storage::format::Compression;
use strandline_storage::seam::Seams;

use crate::args::{Codec, ProduceArgs};
use crate::failure::Failure;
use crate::kafka_client::{
    Admin, ClientError, Delivery, Endpoint, OpenBatch, Partitioner, Producer, ProducerOptions,
};
use crate::output::print;

mod input;
mod limits;
mod line;
mod progress;
mod report;
mod timestamp;

use input::{InputLine, Lines};
use limits::TopicLimits;
use line::{LineFields, LineRecord};
use progress::Progress;
use report::Report;

/// Batches are closed at this size before compression.
const BATCH_BYTES: usize = 256 << 10;
/// How long a batch waits for more lines, counted from its first.
const LINGER: Duration = Duration::from_millis(100);

/// `strandline produce`.
pub async fn run(args: ProduceArgs) -> Result<(), Failure> {
    let lines = Lines::open(args.file.as_deref())?;
    let progress = Progress::new(lines.length_bytes);
    let mut upload = Upload::start(&args, progress).await?;
    let ended = upload.take_all(lines).await;
    let report = upload.finish(ended).await?;
    print(&report.summary())?;
    report.outcome()
}

/// One run: what is open, what has been said about it so far.
struct Upload {
    producer: Producer,
    partitioner: Partitioner,
    limits: TopicLimits,
    fields: LineFields,
    seams: Seams,
    open: BTreeMap<i32, OpenBatch>,
    /// When the oldest batch of `open` was opened.
    open_since: Option<Duration>,
    report: Report,
    progress: Progress,
}

impl Upload {
    async fn start(args: &ProduceArgs, progress: Progress) -> Result<Self, Failure> {
        let endpoint = Endpoint::of(&args.bootstrap)?;
        let mut admin = Admin::connect(&endpoint).await?;
        let topic = admin.topic_or_create(&args.topic).await?;
        let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        check_partition(&args.topic, args.partition, partitions)?;
        // Who may not see the settings is told by the server what it does not take.
        let limits = TopicLimits::of(&admin.settings(&args.topic).await?.unwrap_or_default());
        let seams = Seams::system();
        let options = ProducerOptions {
            endpoint,
            topic: args.topic.clone(),
            compression: compression(args.compression),
        };
        Ok(Self {
            producer: Producer::connect(options, seams.clone()).await?,
            partitioner: Partitioner::new(partitions, args.partition),
            limits,
            fields: LineFields { key: args.key_field.clone(), timestamp: args.timestamp_field.clone() },
            seams,
            open: BTreeMap::new(),
            open_since: None,
            report: Report::new(&args.topic),
            progress,
        })
    }

    /// Takes lines to the end of the input, or until somebody interrupts it; what was read is sent
    /// either way.
    async fn take_all(&mut self, mut lines: Lines) -> Result<(), Failure> {
        let mut interrupted = pin!(tokio::signal::ctrl_c());
        loop {
            let linger = self.linger_left();
            if linger.is_some_and(|left| left.is_zero()) {
                self.send_open().await?;
                continue;
            }
            tokio::select! {
                line = lines.next() => match line {
                    Some(line) => self.take(line?).await?,
                    None => return self.send_open().await,
                },
                () = self.seams.clock.sleep(linger.unwrap_or_default()), if linger.is_some() => {
                    self.send_open().await?;
                    self.settle_all().await?;
                }
                _ = &mut interrupted => {
                    self.progress.say("interrupted: sending what was read");
                    return self.send_open().await;
                }
            }
        }
    }

    /// How long the oldest open batch may still wait for more lines; `None` if none is open.
    fn linger_left(&self) -> Option<Duration> {
        let waited = self.seams.clock.monotonic().saturating_sub(self.open_since?);
        Some(LINGER.saturating_sub(waited))
    }

    async fn take(&mut self, line: InputLine) -> Result<(), Failure> {
        self.progress.read(line.length_bytes);
        let now_ms = self.seams.clock.now_ms();
        if line.bytes.is_empty() && !line.is_too_long {
            self.report.skipped_empty();
            return Ok(());
        }
        let taken = self.fields.record(&line).and_then(|record| {
            let timestamp = record.timestamp.as_ref().map_or(now_ms, |timestamp| timestamp.epoch_ms);
            self.limits.check_timestamp(timestamp, now_ms).map(|()| (record, timestamp))
        });
        match taken {
            Ok((record, timestamp)) => self.add(&line, record, timestamp).await,
            Err(reason) => {
                self.reject(line.number, &reason);
                Ok(())
            }
        }
    }

    async fn add(&mut self, line: &InputLine, record: LineRecord, timestamp: i64) -> Result<(), Failure> {
        if let Some(parsed) = &record.timestamp
            && let Some(note) = self.report.first_timestamp(line.number, parsed)
        {
            self.progress.say(&note);
        }
        let key = record.key.as_deref();
        let partition = self.partitioner.partition(key);
        let size = line.bytes.len() + key.map_or(0, <[u8]>::len);
        let batch_bytes = BATCH_BYTES.min(self.limits.batch_bytes_max);
        let is_full = |batch: &OpenBatch| batch.size_estimate() + size + LineRecord::OVERHEAD > batch_bytes;
        if self.open.get(&partition).is_some_and(is_full) {
            self.send_partition(partition).await?;
        }
        self.open_since.get_or_insert_with(|| self.seams.clock.monotonic());
        let producer = &self.producer;
        let batch = self.open.entry(partition).or_insert_with(|| producer.open_batch(partition));
        if let Err(error) = batch.append(line.number, timestamp, key, &line.bytes) {
            self.reject(line.number, &error.to_string());
        }
        Ok(())
    }

    async fn send_open(&mut self) -> Result<(), Failure> {
        let partitions: Vec<i32> = self.open.keys().copied().collect();
        for partition in partitions {
            self.send_partition(partition).await?;
        }
        Ok(())
    }

    async fn send_partition(&mut self, partition: i32) -> Result<(), Failure> {
        let batch = self.open.remove(&partition);
        if self.open.is_empty() {
            self.open_since = None;
        }
        let Some(batch) = batch.filter(|batch| !batch.is_empty()) else { return Ok(()) };
        self.partitioner.batch_closed();
        let batch = batch.finish();
        if let Err(reason) = self.limits.check_batch(batch.bytes.len()) {
            batch.lines.iter().for_each(|line| self.reject(*line, &reason));
            return Ok(());
        }
        let delivery = self.producer.send(batch).await?;
        self.delivered(delivery)
    }

    async fn settle_all(&mut self) -> Result<(), Failure> {
        while let Some(delivery) = self.producer.settle().await? {
            self.delivered(Some(delivery))?;
        }
        Ok(())
    }

    fn delivered(&mut self, delivery: Option<Delivery>) -> Result<(), Failure> {
        match delivery {
            None => Ok(()),
            Some(Delivery::Acknowledged { partition, base_offset, records }) => {
                self.report.acknowledged(partition, base_offset, records);
                Ok(())
            }
            Some(Delivery::Rejected(lines)) => {
                for (line, reason) in &lines {
                    self.reject(*line, reason);
                }
                let last = lines.last().map_or(0, |(line, _)| *line);
                Err(Failure::failed(format!(
                    "the server refused a batch; of the lines after {last} some may not have been sent"
                )))
            }
        }
    }

    fn reject(&mut self, line: u64, reason: &str) {
        if let Some(note) = self.report.rejected(line, reason) {
            self.progress.say(&note);
        }
    }

    /// Waits for what was sent, also after an error, so that the summary counts it.
    async fn finish(mut self, ended: Result<(), Failure>) -> Result<Report, Failure> {
        let settled = match &ended {
            Ok(()) => self.settle_all().await,
            Err(_) => Ok(()),
        };
        self.progress.finish();
        if let Err(failure) = ended.and(settled) {
            print(&self.report.summary())?;
            return Err(failure);
        }
        Ok(self.report)
    }
}

fn check_partition(topic: &str, asked: Option<i32>, partitions: i32) -> Result<(), ClientError> {
    match asked {
        Some(partition) if !(0..partitions).contains(&partition) => {
            Err(ClientError::UnknownPartition { topic: topic.to_owned(), partition, last: partitions - 1 })
        }
        _ => Ok(()),
    }
}

fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Gzip => Compression::Gzip,
        Codec::Snappy => Compression::Snappy,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd,
    }
}
