//! No bytes make the reader panic, and whatever it says about them can be shown.

#![no_main]

use crashproof_report::SourceError;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    match crashproof_litmus::parse(source) {
        Ok(test) => {
            for code in test.threads.iter().chain(&test.recover) {
                for instruction in &code.instructions {
                    assert!(!test.text(instruction).is_empty());
                    assert!(test.line_number(instruction.span) > 0);
                }
            }
        }
        Err(error) => {
            let (line, column) = error.position(source);
            assert!(line > 0 && column > 0);
            let crashproof_litmus::Error { message, label, help, span } = &error;
            let error = SourceError { message, label, help: help.as_deref(), span: span.start..span.end };
            assert!(!error.render("fuzz.litmus", source).is_empty());
        }
    }
});
