//! `strandline-s3-mock [--port N] [--bucket NAME]...`: the server as a process, for scripts.

use std::process::ExitCode;

use strandline_s3_mock::{MockOptions, S3Mock};

const USAGE: &str = "usage: strandline-s3-mock [--port N] [--bucket NAME]...";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match S3Mock::start(options).await {
        Ok(mock) => {
            println!("{}", mock.endpoint());
            std::future::pending::<()>().await;
            drop(mock);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot listen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Option<MockOptions> {
    let mut options = MockOptions::default();
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()?) {
            ("--port", port) => options.port = port.parse().ok()?,
            ("--bucket", name) => options.buckets.push(name),
            _ => return None,
        }
    }
    Some(options)
}
