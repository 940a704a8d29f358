//! The tests of the log; the pools are where `RECORDS` says.

use std::path::PathBuf;

use records::{Log, fill};

fn pool(name: &str) -> PathBuf {
    PathBuf::from(std::env::var("RECORDS").unwrap_or_else(|_| "/tmp".into())).join(name)
}

#[test]
fn flushed() {
    fill(&mut Log::open(&pool("flushed.pool")), true);
}

#[test]
fn unflushed() {
    fill(&mut Log::open(&pool("unflushed.pool")), false);
}

#[test]
#[should_panic(expected = "full")]
fn panics() {
    fill(&mut Log::open(&pool("panics.pool")), true);
    panic!("the log is full");
}

#[test]
#[ignore = "takes long"]
fn ignored() {
    fill(&mut Log::open(&pool("ignored.pool")), true);
}

#[test]
#[ignore = "never ends"]
fn hangs() {
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

#[test]
#[ignore = "fails without any crash"]
fn broken() {
    panic!("broken");
}
