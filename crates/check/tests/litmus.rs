//! Real programs against the ground truth: random litmus programs of one thread, turned into C, compiled,
//! checked. What recovery can find is exactly what the exhaustive machine says may survive.
//!
//! Recovery reads all locations and ends with an exit code that encodes what it saw, so that every outcome
//! is a finding of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crashproof_check::{Failure, Options, check};
use crashproof_litmus::answer;
use crashproof_litmus::arbitrary::{Size, program};
use crashproof_litmus::{Op, Rmw, Test};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};

/// Values that fit the code; programs with others are skipped.
const VALUES: i64 = 4;

/// The exit code for an outcome, from 1 on.
fn code(outcome: &[i64]) -> Option<i32> {
    outcome
        .iter()
        .try_fold(0, |code, &value| (0..VALUES).contains(&value).then(|| code * VALUES as i32 + value as i32))
        .map(|code| code + 1)
}

/// The test's only thread as C; none if it uses what this translation does not know.
fn to_c(test: &Test) -> Option<String> {
    let mut text = String::from("#include <crashproof.h>\n#include <immintrin.h>\n#include <stdlib.h>\n");
    for line in 0..test.lines {
        let _ = writeln!(text, "struct line{line} {{");
        for location in test.locations.iter().filter(|location| location.line == line) {
            let _ = writeln!(text, "  volatile long {};", location.name);
        }
        let _ = writeln!(text, "}} __attribute__((aligned(64)));");
        let init: Vec<String> = test
            .locations
            .iter()
            .filter(|location| location.line == line)
            .map(|location| location.init.to_string())
            .collect();
        let _ = writeln!(text, "PERSISTENT struct line{line} l{line} = {{ {} }};", init.join(", "));
    }
    let place = |at: crashproof_litmus::LocId| {
        let location = test.location(at);
        format!("l{}.{}", location.line, location.name)
    };
    text.push_str("static void run(void) {\n  long r[8] = {0};\n");
    let instructions = &test.threads.first()?.instructions;
    for (index, instruction) in instructions.iter().enumerate() {
        let _ = write!(text, "i{index}: ; ");
        let _ = match &instruction.op {
            Op::Assign(register, value) => writeln!(text, "r[{}] = {};", register.0, expression(value)),
            Op::Load(register, at) => writeln!(text, "r[{}] = {};", register.0, place(*at)),
            Op::Store(at, value) => writeln!(text, "{} = {};", place(*at), expression(value)),
            Op::NonTemporal(at, value) => {
                writeln!(text, "_mm_stream_si64((long long *)&{}, {});", place(*at), expression(value))
            }
            Op::Rmw(register, at, rmw) => {
                let old = match rmw {
                    Rmw::Cas(expected, new) => format!(
                        "__sync_val_compare_and_swap(&{}, {}, {})",
                        place(*at),
                        expression(expected),
                        expression(new)
                    ),
                    Rmw::Faa(add) => format!("__sync_fetch_and_add(&{}, {})", place(*at), expression(add)),
                    Rmw::Xchg(new) => {
                        format!("__atomic_exchange_n(&{}, {}, __ATOMIC_SEQ_CST)", place(*at), expression(new))
                    }
                };
                match register {
                    Some(register) => writeln!(text, "r[{}] = {old};", register.0),
                    None => writeln!(text, "{old};"),
                }
            }
            Op::Flush(at) => writeln!(text, "_mm_clflush((void *)&{});", place(*at)),
            Op::FlushOpt(at) => writeln!(text, "crashproof_flush((void *)&{}, 8);", place(*at)),
            Op::StoreFence => writeln!(text, "_mm_sfence();"),
            Op::Fence => writeln!(text, "_mm_mfence();"),
            Op::JumpIfZero(condition, target) => {
                writeln!(text, "if (!({})) goto i{target};", expression(condition))
            }
            Op::Jump(target) => writeln!(text, "goto i{target};"),
            Op::Assert(_) => return None,
        };
    }
    let _ = writeln!(text, "i{}: ;\n}}", instructions.len());
    text.push_str("int main(void) {\n  if (!crashproof_crashes()) { run(); return 0; }\n  long code = 0;\n");
    for at in test.location_ids() {
        let _ = writeln!(text, "  code = code * {VALUES} + {};", place(at));
    }
    text.push_str("  exit((int)code + 1);\n}\n");
    Some(text)
}

fn expression(expr: &crashproof_litmus::Expr) -> String {
    use crashproof_litmus::{BinaryOp, Expr};
    match expr {
        Expr::Int(value) => value.to_string(),
        Expr::Variable(register) => format!("r[{register}]"),
        Expr::Binary(BinaryOp::Add, left, right) => format!("({} + {})", expression(left), expression(right)),
        Expr::Binary(BinaryOp::Equal, left, right) => {
            format!("({} == {})", expression(left), expression(right))
        }
        other => unreachable!("random programs have no {other:?}"),
    }
}

#[test]
fn what_recovery_finds_is_what_the_exhaustive_machine_says() {
    let wanted: usize = std::env::var("CRASHPROOF_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(25);
    let directory = crashproof_testkit::scratch("litmus");
    let (source, binary) = (directory.join("program.c"), directory.join("program"));
    let mut runner = TestRunner::new(Config::default());
    let strategy = program(Size { threads: 1, statements: 8 });
    let mut compared = 0;
    let (mut robust_ones, mut violated) = (0, 0);
    while compared < wanted {
        let litmus = strategy.new_tree(&mut runner).expect("a program").current().source();
        let mut test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
        test.recover = None;
        let truth = crashproof_exhaustive::run(&test, &answer::Options::default());
        let codes: Option<BTreeSet<i32>> = truth.states.iter().map(|state| code(state)).collect();
        let stores = test.threads.iter().flat_map(|code| &code.instructions).any(|i| i.op.may_store());
        let (Some(codes), Some(c), true) = (codes, to_c(&test), stores) else { continue };
        if codes.iter().any(|&code| code >= 200) || truth.states.len() < 2 {
            continue;
        }
        std::fs::write(&source, &c).expect("written");
        crashproof_testkit::compile(&source, &binary, &[]);
        let report = check(&Options::new(binary.clone(), Vec::new()))
            .unwrap_or_else(|error| panic!("{error}\n{litmus}"));
        let found: BTreeSet<i32> = report
            .findings
            .iter()
            .map(|finding| match finding.failure {
                Failure::Exit(code) => code,
                ref other => panic!("{other:?}\n{litmus}\n{c}"),
            })
            .collect();
        assert_eq!(found, codes, "\n{litmus}\n{c}");
        assert!(report.unknown.is_empty(), "{:?}", report.unknown);
        // A violation is reported exactly if there is one: by itself, or as the cause of a "failure".
        let caused = report.findings.iter().any(|finding| finding.cause.is_some());
        let reported = caused || !report.violations.is_empty();
        let robust = truth.robust.strict.known().expect("small programs are decided");
        assert_eq!(reported, !robust, "\n{litmus}\n{c}\n{:?}\n{:?}", truth.robust, report.violations);
        *(if robust { &mut robust_ones } else { &mut violated }) += 1;
        compared += 1;
    }
    println!(
        "{compared} random programs compiled and checked; all outcomes agree with the exhaustive machine, and so does \
         robustness: {robust_ones} robust, {violated} not"
    );
}
