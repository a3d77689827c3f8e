//! What is read of a location and its settings. What the store then does is tested over HTTP in
//! `tests/remote_store.rs`.

use super::*;

fn s3(rest: &str) -> Result<RemoteLocation, String> {
    RemoteLocation::parse(RemoteKind::S3, rest)
}

#[test]
fn a_location_is_a_bucket_and_a_prefix() {
    for (rest, bucket, prefix) in
        [("b", "b", ""), ("b/", "b", ""), ("b/x", "b", "x"), ("b.c/x/y-1/", "b.c", "x/y-1")]
    {
        let location = s3(rest).expect(rest);
        assert_eq!((location.bucket.as_str(), location.prefix.as_str()), (bucket, prefix));
    }
    assert_eq!(s3("b/x/").expect("it is good").to_string(), "s3://b/x");
    assert_eq!(s3("b/").expect("it is good").to_string(), "s3://b");
}

#[test]
fn locations_that_no_store_has_are_refused() {
    let long = format!("b/{}", "x".repeat(PREFIX_BYTES_MAX + 1));
    for rest in ["", "/x", "b c", "b//x", "b/../x", "b/.x", "b/x?y", &long] {
        s3(rest).expect_err(rest);
    }
    let refusal = s3("key:secret@b/x").expect_err("credentials are no part of it");
    assert!(!refusal.contains("secret"), "{refusal}");
}

#[test]
fn plain_http_has_to_be_allowed() {
    let endpoint = Some("http://127.0.0.1:9000");
    let refusal = check_transport("s3", endpoint, Transport::EncryptedOnly).expect_err("it is plain");
    assert!(refusal.to_string().contains("s3.allow_http"), "{refusal}");
    assert!(check_transport("s3", endpoint, Transport::PlainAllowed).expect("it is allowed"));
    let encrypted = Some("https://127.0.0.1:9000");
    assert!(!check_transport("s3", encrypted, Transport::PlainAllowed).expect("it is encrypted"));
    check_transport("s3", Some("127.0.0.1:9000"), Transport::PlainAllowed).expect_err("no scheme");
}

#[test]
fn the_bucket_goes_into_the_host_only_for_virtual_hosts() {
    let endpoint = "https://store.example.com:9000/";
    let path = bucket_endpoint(endpoint, "b", Addressing::Path);
    assert_eq!(path, "https://store.example.com:9000");
    let host = bucket_endpoint(endpoint, "b", Addressing::VirtualHost);
    assert_eq!(host, "https://b.store.example.com:9000");
}

#[test]
fn half_of_a_pair_of_keys_is_refused_without_printing_it() {
    let s3_settings = S3Settings { secret_access_key: Some(Secret::new("hush")), ..S3Settings::default() };
    let settings = StoreSettings { s3: s3_settings, ..StoreSettings::default() };
    let location = s3("b").expect("it is good");
    let refusal = location.open(&settings, Access::ReadWrite).expect_err("the id is missing").to_string();
    assert!(refusal.contains("s3://b") && !refusal.contains("hush"), "{refusal}");
}

#[test]
fn by_default_a_hung_request_fails_within_thirty_seconds() {
    let settings = StoreSettings::default();
    // Retries begin only within a bound, and the last one may take its whole time.
    assert!(settings.request_timeout <= Duration::from_secs(30));
    assert!(settings.request_timeout > RETRY_TIMEOUT, "a request that timed out is not sent again");
}

#[test]
fn an_azure_store_without_an_account_is_refused_with_the_name_of_the_setting() {
    let location = RemoteLocation::parse(RemoteKind::Azure, "c/x").expect("it is good");
    let refusal = location.open(&StoreSettings::default(), Access::ReadWrite).expect_err("no account");
    assert!(refusal.to_string().contains("azure.account"), "{refusal}");
}
