//! No compilation database makes its reader panic, and what is wrong with one can be shown.

#![no_main]

use std::path::Path;

use crashproof_frontend::inputs::compilations;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for trust in [false, true] {
        if let Err(why) = compilations(Path::new("compile_commands.json"), &text, trust) {
            assert!(!why.to_string().is_empty());
        }
    }
});
