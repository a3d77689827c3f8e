//! What the server was asked for.

use crate::faults::Operation;

/// Requests since the start or the last reset, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects put whole.
    pub puts: u64,
    pub gets: u64,
    pub heads: u64,
    pub lists: u64,
    /// Requests that delete one or many objects.
    pub deletes: u64,
    pub uploads_created: u64,
    pub parts: u64,
    pub uploads_completed: u64,
    pub uploads_aborted: u64,
    /// Bytes of objects and parts that came in, and of objects that went out.
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Counts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        let uploads = self.uploads_created + self.parts + self.uploads_completed + self.uploads_aborted;
        self.puts + self.gets + self.heads + self.lists + self.deletes + uploads
    }

    pub(crate) fn count(&mut self, operation: Operation) {
        let counter = match operation {
            Operation::PutObject => &mut self.puts,
            Operation::GetObject => &mut self.gets,
            Operation::HeadObject => &mut self.heads,
            Operation::ListObjects => &mut self.lists,
            Operation::DeleteObjects => &mut self.deletes,
            Operation::CreateUpload => &mut self.uploads_created,
            Operation::UploadPart => &mut self.parts,
            Operation::CompleteUpload => &mut self.uploads_completed,
            Operation::AbortUpload => &mut self.uploads_aborted,
        };
        *counter += 1;
    }
}
