//! No template of inline assembly makes its reader panic.

#![no_main]

use crashproof_frontend::asm;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (template, constraints) = text.split_once('|').unwrap_or((text, ""));
    let operands = asm::operands(constraints);
    let sizes: Vec<Option<u32>> =
        (0..operands.len()).map(|index| [Some(8), None, Some(4)][index % 3]).collect();
    let _ = asm::has_instructions(template);
    for intel in [false, true] {
        let _ = asm::nondeterminism(template, intel, &operands);
        let _ = asm::read(template, intel, &operands, &sizes);
    }
});
