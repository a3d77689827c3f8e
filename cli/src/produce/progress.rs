//! A bar on a terminal, nothing elsewhere; notes go to standard error past the bar.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far the input has been read.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `length_bytes` is None when it is not known how much will come.
    pub fn new(length_bytes: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: None };
        }
        let template = match length_bytes {
            Some(_) => "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            None => "{spinner} {bytes} {bytes_per_sec}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is one of two texts above");
        let bar = ProgressBar::with_draw_target(length_bytes, ProgressDrawTarget::stderr());
        Self { bar: Some(bar.with_style(style)) }
    }

    pub fn read(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    pub fn say(&self, note: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{note}")),
            None => eprintln!("{note}"),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
