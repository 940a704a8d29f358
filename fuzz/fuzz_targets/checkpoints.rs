//! No manifest and no journal of a checkpoint, or of a shard, makes its reader panic. The first line of the input is the
//! manifest, the rest are the journal's frames, each behind its length.

#![no_main]

use crashproof_check::{Manifest, recoveries_among};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (manifest, mut rest) = bytes.split_at(end);
    rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    let mut frames = Vec::new();
    while let Some((length, after)) = rest.split_first() {
        let (frame, after) = after.split_at((*length as usize).min(after.len()));
        frames.push(frame);
        rest = after;
    }
    assert!(recoveries_among(frames.iter().copied()) <= frames.len());
    // The manifest's reader takes a directory; of one process, as each worker of the fuzzer is.
    let directory = std::env::temp_dir().join(format!("crashproof-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("manifest.json"), manifest).expect("a file");
    if let Err(why) = Manifest::read(&directory) {
        assert!(!why.to_string().is_empty());
    }
});
