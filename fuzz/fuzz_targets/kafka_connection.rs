//! Any bytes as what a client of the Kafka port sends, through [`kafka::Target`]. A panic of any task ends the
//! fuzzer, because it has set the panic hook of the process.

#![no_main]

use std::sync::Mutex;

use libfuzzer_sys::fuzz_target;
use strandline_fuzz::kafka::Target;
use tokio::runtime::Runtime;

/// What is in a gateway is left behind after so many inputs, so that its log does not fill the memory.
const INPUTS_MAX: usize = 1000;

struct Fuzzer {
    runtime: Runtime,
    target: Option<Target>,
    inputs: usize,
}

static FUZZER: Mutex<Option<Fuzzer>> = Mutex::new(None);

fuzz_target!(|bytes: &[u8]| {
    let mut fuzzer = FUZZER.lock().expect("inputs come one after the other");
    let Fuzzer { runtime, target, inputs } = fuzzer.get_or_insert_with(|| Fuzzer {
        runtime: Runtime::new().expect("a runtime starts"),
        target: None,
        inputs: 0,
    });
    *inputs += 1;
    runtime.block_on(async {
        if *inputs % INPUTS_MAX == 0
            && let Some(target) = target.take()
        {
            target.stop().await;
        }
        match target {
            Some(target) => drop(target.run(bytes).await),
            None => drop(target.insert(Target::start().await).run(bytes).await),
        }
    });
});
