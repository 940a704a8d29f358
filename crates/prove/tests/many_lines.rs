//! Crash times become nodes of the order after program order has been computed. With 64 nodes or more, the closure of
//! program order used to be queried for them as well: it panicked, or answered with another node's row and omitted that
//! survivors precede their line's last write-back.

use std::fmt::Write;

use crashproof_prove::litmus;
use crashproof_prove::prove::{self, Options, Verdict};

/// Two stores to the line that is last in order, then one to each of the other lines; recovery reads all of them.
fn prefix_of_last_line(lines: usize) -> String {
    let mut text = String::from("litmus many\n");
    for line in 0..lines - 1 {
        writeln!(text, "line {{ x{line} }}").expect("a string");
    }
    text.push_str("line { first, second }\nthread {\n  first = 1;\n  second = 1;\n");
    for line in 0..lines - 1 {
        writeln!(text, "  x{line} = 1;").expect("a string");
    }
    text.push_str("}\nrecover {\n");
    for line in 0..lines - 1 {
        writeln!(text, "  r{line} = x{line};\n  assert (r{line} == 0 || r{line} == 1);").expect("a string");
    }
    text.push_str("  a = first;\n  b = second;\n  assert (b == 0 || a == 1);\n}\n");
    text
}

#[test]
fn a_line_persists_in_order_however_many_lines_there_are() {
    for lines in [33, 40, 63, 64, 65, 126, 127, 128, 129] {
        let test = crashproof_litmus::parse(&prefix_of_last_line(lines)).expect("a litmus test");
        let report = prove::prove(&litmus::program(&test), &Options::default()).expect("an answer");
        assert!(matches!(report.verdict, Verdict::Holds), "{lines} lines: {:?}", report.verdict);
    }
}

#[test]
fn robustness_of_many_lines_is_decided() {
    for lines in [33, 63, 64, 65, 128] {
        let test = crashproof_litmus::parse(&prefix_of_last_line(lines)).expect("a litmus test");
        let program = litmus::program(&test);
        let report = crashproof_prove::robust::prove(&program, &Options::default()).expect("an answer");
        assert!(matches!(report.verdict, Verdict::Violated(_)), "{lines} lines: {:?}", report.verdict);
    }
}
