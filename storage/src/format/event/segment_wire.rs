//! Between the events about transactions, producers that expired, segments, log starts and losses and their messages.

use super::messages::{
    ExpiredProducersMessage, InstalledObjectMessage, LogStartMessage, LogStartsMovedMessage,
    LossAcceptedMessage, LostRangeMessage, ObjectsDeletedMessage, PartitionInstallMessage,
    ProducersExpiredMessage, SegmentsInstalledMessage, TransactionEndedMessage,
};
use super::wire::{Wire, id_bytes, id_of};
use super::{
    ExpiredProducers, InstalledObject, LogStart, LogStartsMoved, LossAccepted, LostRange, ObjectsDeleted,
    PartitionInstall, ProducersExpired, SegmentsInstalled, TransactionEnded, TransactionResult,
};
use crate::format::slice::{Slice, object_id_of};

const ABORT: u32 = 0;
const COMMIT: u32 = 1;

impl Wire for TransactionEnded {
    type Message = TransactionEndedMessage;

    fn to_message(&self) -> Self::Message {
        TransactionEndedMessage {
            topic_id: id_bytes(&self.topic_id),
            partition: self.partition,
            producer_id: self.producer_id,
            producer_epoch: i32::from(self.producer_epoch),
            coordinator_epoch: self.coordinator_epoch,
            result: match self.result {
                TransactionResult::Abort => ABORT,
                TransactionResult::Commit => COMMIT,
            },
            marker_offset: self.marker_offset,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let producer_epoch = i16::try_from(message.producer_epoch)
            .map_err(|_| format!("producer epoch {} does not fit 16 bits", message.producer_epoch))?;
        let result = match message.result {
            ABORT => TransactionResult::Abort,
            COMMIT => TransactionResult::Commit,
            other => return Err(format!("transaction result {other} is not known")),
        };
        Ok(Self {
            topic_id: id_of(&message.topic_id)?,
            partition: message.partition,
            producer_id: message.producer_id,
            producer_epoch,
            coordinator_epoch: message.coordinator_epoch,
            result,
            marker_offset: message.marker_offset,
        })
    }
}

impl Wire for ProducersExpired {
    type Message = ProducersExpiredMessage;

    fn to_message(&self) -> Self::Message {
        let expired = |expired: &ExpiredProducers| ExpiredProducersMessage {
            topic_id: id_bytes(&expired.topic_id),
            partition: expired.partition,
            producer_ids: expired.producer_ids.clone(),
        };
        ProducersExpiredMessage { partitions: self.partitions.iter().map(expired).collect() }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let expired_of = |message: ExpiredProducersMessage| {
            Ok::<_, String>(ExpiredProducers {
                topic_id: id_of(&message.topic_id)?,
                partition: message.partition,
                producer_ids: message.producer_ids,
            })
        };
        Ok(Self { partitions: message.partitions.into_iter().map(expired_of).collect::<Result<_, _>>()? })
    }
}

impl Wire for SegmentsInstalled {
    type Message = SegmentsInstalledMessage;

    fn to_message(&self) -> Self::Message {
        let object = |object: &InstalledObject| InstalledObjectMessage {
            object: object.object.to_bytes().to_vec(),
            length: object.length,
        };
        SegmentsInstalledMessage {
            objects: self.objects.iter().map(object).collect(),
            partitions: self.partitions.iter().map(install_message).collect(),
            wal_objects: self.wal_objects,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let object_of = |message: InstalledObjectMessage| {
            Ok::<_, String>(InstalledObject {
                object: object_id_of(&message.object)?,
                length: message.length,
            })
        };
        Ok(Self {
            objects: message.objects.into_iter().map(object_of).collect::<Result<_, _>>()?,
            partitions: message.partitions.into_iter().map(install_of).collect::<Result<_, _>>()?,
            wal_objects: message.wal_objects,
        })
    }
}

fn install_message(install: &PartitionInstall) -> PartitionInstallMessage {
    PartitionInstallMessage {
        topic_id: id_bytes(&install.topic_id),
        partition: install.partition,
        base_offset: install.base_offset,
        next_offset: install.next_offset,
        slices: install.slices.iter().map(Slice::to_message).collect(),
        cleaned_offset: install.cleaned_offset,
    }
}

fn install_of(message: PartitionInstallMessage) -> Result<PartitionInstall, String> {
    Ok(PartitionInstall {
        topic_id: id_of(&message.topic_id)?,
        partition: message.partition,
        base_offset: message.base_offset,
        next_offset: message.next_offset,
        slices: message.slices.into_iter().map(Slice::from_message).collect::<Result<_, _>>()?,
        cleaned_offset: message.cleaned_offset,
    })
}

impl Wire for LogStartsMoved {
    type Message = LogStartsMovedMessage;

    fn to_message(&self) -> Self::Message {
        let start = |start: &LogStart| LogStartMessage {
            topic_id: id_bytes(&start.topic_id),
            partition: start.partition,
            log_start_offset: start.log_start_offset,
        };
        LogStartsMovedMessage { partitions: self.partitions.iter().map(start).collect() }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let start_of = |message: LogStartMessage| {
            Ok::<_, String>(LogStart {
                topic_id: id_of(&message.topic_id)?,
                partition: message.partition,
                log_start_offset: message.log_start_offset,
            })
        };
        Ok(Self { partitions: message.partitions.into_iter().map(start_of).collect::<Result<_, _>>()? })
    }
}

impl Wire for ObjectsDeleted {
    type Message = ObjectsDeletedMessage;

    fn to_message(&self) -> Self::Message {
        ObjectsDeletedMessage {
            objects: self.objects.iter().map(|object| object.to_bytes().to_vec()).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let objects = message.objects.iter().map(|object| object_id_of(object)).collect::<Result<_, _>>()?;
        Ok(Self { objects })
    }
}

impl Wire for LossAccepted {
    type Message = LossAcceptedMessage;

    fn to_message(&self) -> Self::Message {
        let range = |range: &LostRange| LostRangeMessage {
            topic_id: id_bytes(&range.topic_id),
            partition: range.partition,
            base_offset: range.base_offset,
            next_offset: range.next_offset,
        };
        LossAcceptedMessage {
            object: self.object.clone(),
            partitions: self.partitions.iter().map(range).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        let range_of = |message: LostRangeMessage| {
            Ok::<_, String>(LostRange {
                topic_id: id_of(&message.topic_id)?,
                partition: message.partition,
                base_offset: message.base_offset,
                next_offset: message.next_offset,
            })
        };
        Ok(Self {
            object: message.object,
            partitions: message.partitions.into_iter().map(range_of).collect::<Result<_, _>>()?,
        })
    }
}
