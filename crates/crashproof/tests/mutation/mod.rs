//! Damaged inputs for parsers: generated from good ones with a seed, and shrunk when a parser panics.
//!
//! `CRASHPROOF_INPUTS` sets the number of inputs per parser, `PROPTEST_RNG_SEED` the seed; `make soak` sets both.
//! Failing inputs are saved below the temporary directory.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// xorshift64*: good enough to damage files.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }
}

/// Inputs that have broken parsers elsewhere.
const TROUBLE: [&[u8]; 20] = [
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"-1",
    b"1e999",
    b"0x",
    b"\0",
    b"\xff\xfe",
    b"\xf0\x9f\x92\xa9",
    b"\r\n",
    b"\\u0000",
    b"\"",
    b"'''",
    b"/*",
    b"..",
    b"[[",
    b"{{{{",
    b"%",
    b"\x1b[2J",
    b"$(",
];

/// A damaged copy of one of the inputs.
pub(crate) fn damaged(random: &mut Random, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inputs[random.below(inputs.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(24)).min(bytes.len());
        match random.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
            2 => drop(bytes.drain(at..end.max(at))),
            3 => {
                let copy = bytes[at..end.max(at)].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => drop(bytes.splice(at..at, TROUBLE[random.below(TROUBLE.len())].iter().copied())),
            5 => {
                // The end of another input.
                let other = &inputs[random.below(inputs.len())];
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            6 => bytes.truncate(at),
            7 => {
                // Nested far deeper than real input.
                let unit = bytes[at..end.max(at)].to_vec();
                let many = unit.repeat(1 << random.below(10));
                bytes.splice(at..at, many);
            }
            _ => {
                let with = random.below(bytes.len() + 1);
                if at < bytes.len() && with < bytes.len() {
                    bytes.swap(at, with);
                }
            }
        }
        bytes.truncate(1 << 18);
    }
    bytes
}

/// Does the parser survive?
fn survives(parse: &dyn Fn(&[u8]) -> bool, bytes: &[u8]) -> Option<bool> {
    catch_unwind(AssertUnwindSafe(|| parse(bytes))).ok()
}

/// The same failure with as few bytes as can easily be found.
fn shrunk(parse: &dyn Fn(&[u8]) -> bool, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut part = bytes.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < bytes.len() {
            let mut fewer = bytes.clone();
            fewer.drain(at..(at + part).min(bytes.len()));
            if survives(parse, &fewer).is_none() {
                bytes = fewer;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    bytes
}

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a parser on damaged inputs; `parse` returns whether it accepted one. Panics with the smallest input that makes
/// it panic.
pub(crate) fn try_all(name: &str, inputs: &[Vec<u8>], default: u64, parse: &dyn Fn(&[u8]) -> bool) {
    assert!(!inputs.is_empty(), "{name}: nothing to begin with");
    for input in inputs {
        // Otherwise the damaged ones would only show that it rejects everything.
        assert!(parse(input), "{name}: refused before any damage: {}", String::from_utf8_lossy(input));
    }
    let mut random = Random::new(number("PROPTEST_RNG_SEED", 1));
    let count = number("CRASHPROOF_INPUTS", default);
    let mut accepted = 0;
    for _ in 0..count {
        let bytes = damaged(&mut random, inputs);
        match survives(parse, &bytes) {
            Some(good) => accepted += u64::from(good),
            None => {
                let least = shrunk(parse, bytes);
                let file = std::env::temp_dir().join(format!("crashproof-failed-{name}"));
                let _ = std::fs::write(&file, &least);
                panic!("{name} panics on {:?}, saved as {}", String::from_utf8_lossy(&least), file.display());
            }
        }
    }
    println!("tried | damaged {name} | {count} | {accepted} accepted, the others rejected |");
}
