//! No description of a framework makes its reader panic, and what is wrong with one can be shown.

#![no_main]

use crashproof_frontend::frameworks::Apis;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut apis = Apis::built_in();
    match apis.add_text("fuzz.toml", text) {
        Ok(()) => assert!(!apis.explain().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
