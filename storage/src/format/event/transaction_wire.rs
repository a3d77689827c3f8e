//! Between the events about transactional ids and their messages.

use std::sync::Arc;

use super::messages::TransactionalIdRemovedMessage;
use super::wire::Wire;
use super::{TransactionalIdPut, TransactionalIdRemoved};
use crate::format::transactional_id::{TransactionalId, TransactionalIdMessage};

impl Wire for TransactionalIdPut {
    type Message = TransactionalIdMessage;

    fn to_message(&self) -> Self::Message {
        self.transactional_id.to_message()
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self { transactional_id: Arc::new(TransactionalId::from_message(message)?) })
    }
}

impl Wire for TransactionalIdRemoved {
    type Message = TransactionalIdRemovedMessage;

    fn to_message(&self) -> Self::Message {
        TransactionalIdRemovedMessage { name: self.name.clone() }
    }

    fn from_message(message: Self::Message) -> Result<Self, String> {
        Ok(Self { name: message.name })
    }
}
