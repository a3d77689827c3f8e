//! The buckets and what is in them. No requests, no waiting: the caller holds the lock.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{Bytes, BytesMut};
use s3s::{S3Result, s3_error};

/// S3 takes no smaller part than this, but for the last one.
const PART_BYTES_MIN: usize = 5 << 20;

/// Whether conditions of a put are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conditions {
    #[default]
    Kept,
    /// As by a server that has never heard of them.
    Ignored,
}

/// What a put asks of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    None,
    Absent,
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) bytes: Bytes,
    pub(crate) tag: String,
}

#[derive(Debug, Default)]
pub(crate) struct Buckets {
    buckets: BTreeMap<String, BTreeMap<String, Object>>,
    uploads: BTreeMap<String, Upload>,
    next_number: u64,
    pub(crate) conditions: Conditions,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    parts: BTreeMap<i32, Object>,
}

/// A page of a listing.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) objects: Vec<(String, Object)>,
    pub(crate) common_prefixes: Vec<String>,
    /// Where the next page begins (exclusive), if there is one.
    pub(crate) next: Option<String>,
}

/// What to list.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) delimiter: Option<&'a str>,
    /// Keys and common prefixes up to this one are left out.
    pub(crate) after: Option<&'a str>,
    pub(crate) entries_max: usize,
}

impl Buckets {
    pub(crate) fn new(names: &[String], conditions: Conditions) -> Self {
        let buckets = names.iter().map(|name| (name.clone(), BTreeMap::new())).collect();
        Self { buckets, conditions, ..Self::default() }
    }

    pub(crate) fn create(&mut self, name: String) {
        self.buckets.entry(name).or_default();
    }

    fn bucket(&self, name: &str) -> S3Result<&BTreeMap<String, Object>> {
        self.buckets.get(name).ok_or_else(|| s3_error!(NoSuchBucket, "the bucket {name} does not exist"))
    }

    fn bucket_mut(&mut self, name: &str) -> S3Result<&mut BTreeMap<String, Object>> {
        self.buckets.get_mut(name).ok_or_else(|| s3_error!(NoSuchBucket, "the bucket {name} does not exist"))
    }

    /// Every object as `bucket/key`.
    pub(crate) fn all(&self) -> BTreeMap<String, Bytes> {
        let entries = self.buckets.iter().flat_map(|(bucket, objects)| {
            objects.iter().map(move |(key, object)| (format!("{bucket}/{key}"), object.bytes.clone()))
        });
        entries.collect()
    }

    /// Puts an object and answers its tag.
    pub(crate) fn put(
        &mut self,
        bucket: &str,
        key: String,
        bytes: Bytes,
        precondition: Precondition,
    ) -> S3Result<String> {
        let tag = self.next_name();
        let is_kept = self.conditions == Conditions::Kept;
        let objects = self.bucket_mut(bucket)?;
        if is_kept && precondition == Precondition::Absent && objects.contains_key(&key) {
            return Err(s3_error!(PreconditionFailed, "the key {key} is taken"));
        }
        objects.insert(key, Object { bytes, tag: tag.clone() });
        Ok(tag)
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> S3Result<Object> {
        let object = self.bucket(bucket)?.get(key);
        object.cloned().ok_or_else(|| s3_error!(NoSuchKey, "the key {key} does not exist"))
    }

    pub(crate) fn delete(&mut self, bucket: &str, key: &str) -> S3Result<()> {
        self.bucket_mut(bucket)?.remove(key);
        Ok(())
    }

    pub(crate) fn list(&self, bucket: &str, listing: &Listing<'_>) -> S3Result<Page> {
        let objects = self.bucket(bucket)?;
        let mut page = Page::default();
        let mut last: Option<String> = listing.after.map(str::to_owned);
        let mut entries = 0;
        for (key, object) in objects.range::<str, _>((Bound::Included(listing.prefix), Bound::Unbounded)) {
            let Some(rest) = key.strip_prefix(listing.prefix) else { break };
            let name = match listing.delimiter.and_then(|delimiter| Some((rest.find(delimiter)?, delimiter)))
            {
                Some((at, delimiter)) => &key[..listing.prefix.len() + at + delimiter.len()],
                None => key,
            };
            if last.as_deref().is_some_and(|last| name <= last) {
                continue;
            }
            if entries == listing.entries_max {
                page.next = last;
                break;
            }
            entries += 1;
            match name == key {
                true => page.objects.push((key.clone(), object.clone())),
                false => page.common_prefixes.push(name.to_owned()),
            }
            last = Some(name.to_owned());
        }
        Ok(page)
    }

    pub(crate) fn open_uploads(&self) -> usize {
        self.uploads.len()
    }

    pub(crate) fn create_upload(&mut self, bucket: &str, key: &str) -> S3Result<String> {
        self.bucket(bucket)?;
        let id = self.next_name();
        let upload = Upload { bucket: bucket.to_owned(), key: key.to_owned(), parts: BTreeMap::new() };
        self.uploads.insert(id.clone(), upload);
        Ok(id)
    }

    pub(crate) fn put_part(&mut self, id: &str, number: i32, bytes: Bytes) -> S3Result<String> {
        let tag = self.next_name();
        let upload = self.uploads.get_mut(id).ok_or_else(|| no_such_upload(id))?;
        upload.parts.insert(number, Object { bytes, tag: tag.clone() });
        Ok(tag)
    }

    /// Joins the named parts, given as their numbers and tags.
    pub(crate) fn complete_upload(
        &mut self,
        id: &str,
        named: &[(i32, String)],
        precondition: Precondition,
    ) -> S3Result<String> {
        let upload = self.uploads.get(id).ok_or_else(|| no_such_upload(id))?;
        let (bucket, key) = (upload.bucket.clone(), upload.key.clone());
        let bytes = upload.join(named)?;
        let tag = self.put(&bucket, key, bytes, precondition)?;
        self.uploads.remove(id);
        Ok(tag)
    }

    pub(crate) fn abort_upload(&mut self, id: &str) -> S3Result<()> {
        self.uploads.remove(id).map(drop).ok_or_else(|| no_such_upload(id))
    }

    fn next_name(&mut self) -> String {
        self.next_number += 1;
        format!("{:032x}", self.next_number)
    }
}

impl Upload {
    fn join(&self, named: &[(i32, String)]) -> S3Result<Bytes> {
        if !named.is_sorted_by(|(left, _), (right, _)| left < right) {
            return Err(s3_error!(InvalidPartOrder));
        }
        let mut bytes = BytesMut::new();
        for (index, (number, tag)) in named.iter().enumerate() {
            let part = self.parts.get(number).filter(|part| part.tag == *tag);
            let part = part.ok_or_else(|| s3_error!(InvalidPart, "part {number} was not put"))?;
            if part.bytes.len() < PART_BYTES_MIN && index + 1 < named.len() {
                return Err(s3_error!(EntityTooSmall, "part {number} has {} bytes", part.bytes.len()));
            }
            bytes.extend_from_slice(&part.bytes);
        }
        Ok(bytes.freeze())
    }
}

fn no_such_upload(id: &str) -> s3s::S3Error {
    s3_error!(NoSuchUpload, "there is no upload {id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(keys: &[&str]) -> Buckets {
        let mut buckets = Buckets::new(&["b".to_owned()], Conditions::Kept);
        for key in keys {
            buckets.put("b", (*key).to_owned(), Bytes::new(), Precondition::None).expect("no condition");
        }
        buckets
    }

    /// All pages of a listing, objects and common prefixes together.
    fn pages(
        buckets: &Buckets,
        prefix: &str,
        delimiter: Option<&str>,
        entries_max: usize,
    ) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut after = None;
        loop {
            let listing = Listing { prefix, delimiter, after: after.as_deref(), entries_max };
            let page = buckets.list("b", &listing).expect("the bucket is there");
            let keys = page.objects.into_iter().map(|(key, _)| key);
            pages.push(keys.chain(page.common_prefixes).collect());
            match page.next {
                None => return pages,
                next => after = next,
            }
        }
    }

    #[test]
    fn a_put_under_a_condition_wins_once() {
        let mut buckets = buckets(&[]);
        let mut put = |bucket: &str| {
            let put = buckets.put(bucket, "k".to_owned(), Bytes::new(), Precondition::Absent);
            put.map_err(|error| error.code().as_str().to_owned())
        };
        put("b").expect("the key is free");
        assert_eq!(put("b"), Err("PreconditionFailed".to_owned()));
        assert_eq!(put("other"), Err("NoSuchBucket".to_owned()));
    }

    #[test]
    fn a_server_that_ignores_conditions_overwrites() {
        let mut buckets = buckets(&["k"]);
        buckets.conditions = Conditions::Ignored;
        let new = Bytes::from_static(b"new");
        buckets.put("b", "k".to_owned(), new.clone(), Precondition::Absent).expect("it overwrites");
        assert_eq!(buckets.get("b", "k").expect("it is there").bytes, new);
    }

    #[test]
    fn listings_are_cut_into_pages_without_loss_or_repetition() {
        let buckets = buckets(&["a", "d/1", "d/2", "d/x/3", "e/4", "f"]);
        assert_eq!(pages(&buckets, "", None, 4), [vec!["a", "d/1", "d/2", "d/x/3"], vec!["e/4", "f"]]);
        assert_eq!(pages(&buckets, "d/", None, 3), [vec!["d/1", "d/2", "d/x/3"]]);
        assert_eq!(pages(&buckets, "", Some("/"), 2), [vec!["a", "d/"], vec!["f", "e/"]]);
        assert_eq!(pages(&buckets, "d/", Some("/"), 9), [vec!["d/1", "d/2", "d/x/"]]);
        assert_eq!(pages(&buckets, "nothing", None, 9), [vec![""; 0]]);
    }

    #[test]
    fn parts_are_joined_in_order_and_seen_only_then() {
        let mut buckets = buckets(&[]);
        let id = buckets.create_upload("b", "k").expect("the bucket is there");
        let large = Bytes::from(vec![1; PART_BYTES_MIN]);
        let second = buckets.put_part(&id, 2, Bytes::from_static(b"end")).expect("the upload is open");
        let first = buckets.put_part(&id, 1, large).expect("the upload is open");
        buckets.get("b", "k").expect_err("it is not complete");
        let swapped = [(2, second.clone()), (1, first.clone())];
        buckets.complete_upload(&id, &swapped, Precondition::None).expect_err("the order is wrong");
        buckets.complete_upload(&id, &[(1, first), (2, second)], Precondition::None).expect("it is right");
        assert_eq!(buckets.get("b", "k").expect("it is complete").bytes.len(), PART_BYTES_MIN + 3);
        assert_eq!(buckets.open_uploads(), 0);
        buckets.abort_upload(&id).expect_err("it is complete");
    }

    #[test]
    fn a_small_part_is_taken_only_as_the_last_one() {
        let mut buckets = buckets(&[]);
        let id = buckets.create_upload("b", "k").expect("the bucket is there");
        let put = |number| (number, Bytes::from_static(b"small"));
        let parts: Vec<(i32, String)> = [put(1), put(2)]
            .into_iter()
            .map(|(number, bytes)| (number, buckets.put_part(&id, number, bytes).expect("it is open")))
            .collect();
        let error = buckets.complete_upload(&id, &parts, Precondition::None).expect_err("it is too small");
        assert_eq!(error.code().as_str(), "EntityTooSmall");
    }
}
