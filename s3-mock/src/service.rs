//! The requests: each is counted, meets its fault, and is carried out on the buckets.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use s3s::dto::*;
use s3s::{Body, S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::counts::Counts;
use crate::faults::{Fault, FaultPlan, Operation};
use crate::objects::{Buckets, Listing, Object as Stored, Precondition};

/// Objects are of this age: nothing here reads a clock. 2026-01-01T00:00:00Z.
const LAST_MODIFIED: Duration = Duration::from_secs(1_767_225_600);

/// What the handle and the requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The most entries on a page of a listing.
    page_entries_max: usize,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) buckets: Buckets,
    pub(crate) counts: Counts,
    pub(crate) faults: FaultPlan,
    pub(crate) latency: Duration,
}

/// The server as s3s calls it.
pub(crate) struct Service(pub(crate) Arc<Shared>);

/// What to answer once a request was carried out.
struct Answer(Option<u16>);

impl Answer {
    fn give<T>(self, result: S3Result<T>) -> S3Result<S3Response<T>> {
        match self.0 {
            Some(status) => Err(status_error(status)),
            None => result.map(S3Response::new),
        }
    }
}

impl Shared {
    pub(crate) fn new(state: State, page_entries_max: usize) -> Self {
        Self { state: Mutex::new(state), page_entries_max }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Counts a request and lets it meet its fault.
    async fn begin(&self, operation: Operation) -> S3Result<Answer> {
        let (latency, fault) = {
            let mut state = self.state();
            state.counts.count(operation);
            (state.latency, state.faults.meet(operation))
        };
        wait(latency).await;
        match fault {
            None => Ok(Answer(None)),
            Some(Fault::Refuse(status)) => Err(status_error(status)),
            Some(Fault::RefuseAfter(status)) => Ok(Answer(Some(status))),
            Some(Fault::Delay(delay)) => {
                wait(delay).await;
                Ok(Answer(None))
            }
            Some(Fault::Hang) => std::future::pending().await,
        }
    }

    /// Takes a body in, which also has to be done if the request is going to be refused.
    async fn receive(&self, body: Option<StreamingBlob>) -> S3Result<Bytes> {
        let mut bytes = BytesMut::new();
        if let Some(mut body) = body {
            let interrupted = |_| s3_error!(IncompleteBody);
            while let Some(piece) = body.try_next().await.map_err(interrupted)? {
                bytes.extend_from_slice(&piece);
            }
        }
        self.state().counts.bytes_in += bytes.len() as u64;
        Ok(bytes.freeze())
    }
}

#[expect(clippy::disallowed_methods, reason = "latency is injected in real time, beside the code under test")]
async fn wait(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

/// The error that S3 and its likes give with a status.
fn status_error(status: u16) -> S3Error {
    let code = match status {
        400 => S3ErrorCode::InvalidRequest,
        403 => S3ErrorCode::AccessDenied,
        404 => S3ErrorCode::NoSuchKey,
        409 => S3ErrorCode::Custom("ConditionalRequestConflict".into()),
        412 => S3ErrorCode::PreconditionFailed,
        503 => S3ErrorCode::SlowDown,
        507 => S3ErrorCode::Custom("InsufficientStorage".into()),
        _ => S3ErrorCode::InternalError,
    };
    let mut error = S3Error::with_message(code, "the test asked for this error");
    if let Ok(status) = axum::http::StatusCode::from_u16(status) {
        error.set_status_code(status);
    }
    error
}

fn precondition(if_none_match: Option<&ETagCondition>) -> Precondition {
    match if_none_match {
        Some(ETagCondition::Any) => Precondition::Absent,
        Some(ETagCondition::ETag(_)) | None => Precondition::None,
    }
}

fn last_modified() -> Option<Timestamp> {
    Some((SystemTime::UNIX_EPOCH + LAST_MODIFIED).into())
}

fn as_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn entry(key: String, stored: &Stored) -> Object {
    Object {
        key: Some(key),
        size: Some(as_i64(stored.bytes.len())),
        e_tag: Some(ETag::Strong(stored.tag.clone())),
        last_modified: last_modified(),
        ..Object::default()
    }
}

/// The asked bytes of an object, and how they are told if they are not all.
fn cut(stored: &Stored, range: Option<Range>) -> S3Result<(Bytes, Option<String>)> {
    let length = stored.bytes.len();
    let Some(range) = range else { return Ok((stored.bytes.clone(), None)) };
    let range = range.check(length as u64).map_err(|_| s3_error!(InvalidRange))?;
    let told = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
    let as_usize = |position| usize::try_from(position).unwrap_or(usize::MAX).min(length);
    Ok((stored.bytes.slice(as_usize(range.start)..as_usize(range.end)), Some(told)))
}

#[async_trait::async_trait]
impl S3 for Service {
    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        self.0.state().buckets.create(request.input.bucket);
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let bytes = self.0.receive(input.body).await?;
        let answer = self.0.begin(Operation::PutObject).await?;
        let condition = precondition(input.if_none_match.as_ref());
        let put = self.0.state().buckets.put(&input.bucket, input.key, bytes, condition);
        answer.give(
            put.map(|tag| PutObjectOutput { e_tag: Some(ETag::Strong(tag)), ..PutObjectOutput::default() }),
        )
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let answer = self.0.begin(Operation::GetObject).await?;
        let stored = self.0.state().buckets.get(&input.bucket, &input.key)?;
        let (bytes, content_range) = cut(&stored, input.range)?;
        self.0.state().counts.bytes_out += bytes.len() as u64;
        answer.give(Ok(GetObjectOutput {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some(as_i64(bytes.len())),
            content_range,
            body: Some(Body::from(bytes).into()),
            e_tag: Some(ETag::Strong(stored.tag)),
            last_modified: last_modified(),
            ..GetObjectOutput::default()
        }))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let answer = self.0.begin(Operation::HeadObject).await?;
        let stored = self.0.state().buckets.get(&input.bucket, &input.key)?;
        answer.give(Ok(HeadObjectOutput {
            content_length: Some(as_i64(stored.bytes.len())),
            e_tag: Some(ETag::Strong(stored.tag)),
            last_modified: last_modified(),
            ..HeadObjectOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let answer = self.0.begin(Operation::ListObjects).await?;
        let asked_max = input.max_keys.and_then(|keys| usize::try_from(keys).ok());
        let listing = Listing {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input.delimiter.as_deref(),
            after: input.continuation_token.as_deref().or(input.start_after.as_deref()),
            entries_max: asked_max.unwrap_or(usize::MAX).min(self.0.page_entries_max),
        };
        let page = self.0.state().buckets.list(&input.bucket, &listing)?;
        let entries = page.objects.len() + page.common_prefixes.len();
        let as_prefix = |prefix| CommonPrefix { prefix: Some(prefix) };
        answer.give(Ok(ListObjectsV2Output {
            key_count: i32::try_from(entries).ok(),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next,
            contents: Some(page.objects.into_iter().map(|(key, stored)| entry(key, &stored)).collect()),
            common_prefixes: Some(page.common_prefixes.into_iter().map(as_prefix).collect()),
            name: Some(input.bucket),
            prefix: input.prefix,
            ..ListObjectsV2Output::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let answer = self.0.begin(Operation::DeleteObjects).await?;
        let deleted = self.0.state().buckets.delete(&request.input.bucket, &request.input.key);
        answer.give(deleted.map(|()| DeleteObjectOutput::default()))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        let answer = self.0.begin(Operation::DeleteObjects).await?;
        let mut deleted = Vec::new();
        for object in input.delete.objects {
            self.0.state().buckets.delete(&input.bucket, &object.key)?;
            deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() });
        }
        answer.give(Ok(DeleteObjectsOutput { deleted: Some(deleted), ..DeleteObjectsOutput::default() }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = request.input;
        let answer = self.0.begin(Operation::CreateUpload).await?;
        let created = self.0.state().buckets.create_upload(&input.bucket, &input.key);
        answer.give(created.map(|id| CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        let bytes = self.0.receive(input.body).await?;
        let answer = self.0.begin(Operation::UploadPart).await?;
        let put = self.0.state().buckets.put_part(&input.upload_id, input.part_number, bytes);
        answer.give(
            put.map(|tag| UploadPartOutput { e_tag: Some(ETag::Strong(tag)), ..UploadPartOutput::default() }),
        )
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        let answer = self.0.begin(Operation::CompleteUpload).await?;
        let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let named = |part: CompletedPart| Some((part.part_number?, part.e_tag?.value().to_owned()));
        let named: Option<Vec<_>> = parts.into_iter().map(named).collect();
        let named = named.ok_or_else(|| s3_error!(InvalidPart, "a part has no number or no tag"))?;
        let condition = precondition(input.if_none_match.as_ref());
        let completed = self.0.state().buckets.complete_upload(&input.upload_id, &named, condition);
        answer.give(completed.map(|tag| CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(ETag::Strong(tag)),
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let answer = self.0.begin(Operation::AbortUpload).await?;
        let aborted = self.0.state().buckets.abort_upload(&request.input.upload_id);
        answer.give(aborted.map(|()| AbortMultipartUploadOutput::default()))
    }
}
