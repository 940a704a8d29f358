//! No settings, suppressions or baselines make their readers panic, and what is wrong with them can be shown.

#![no_main]

use crashproof_findings::baseline::Baseline;
use crashproof_findings::config::Config;
use crashproof_findings::suppress::Suppressions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // They take a path; of one process, as each worker of the fuzzer is.
    let file = std::env::temp_dir().join(format!("crashproof-fuzz-{}.toml", std::process::id()));
    std::fs::write(&file, bytes).expect("a file");
    let refused = [
        Config::read(&file).err().map(|error| error.to_string()),
        Suppressions::default().read(&file).err().map(|error| error.to_string()),
        Baseline::read(&file).err().map(|error| error.to_string()),
    ];
    assert!(refused.iter().flatten().all(|why| !why.is_empty()));
});
