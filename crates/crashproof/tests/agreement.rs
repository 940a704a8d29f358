//! The engines agree on random programs. Failing programs are shrunk and printed as litmus files.
//!
//! `CRASHPROOF_CASES` sets the number of programs; `make soak` uses tens of thousands.

use crashproof_litmus::answer::{Answer, Assertions, Options};
use crashproof_litmus::arbitrary::{Program, Size, program, program_with_domains};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use px86::Domain;

fn cases(default: u32) -> u32 {
    std::env::var("CRASHPROOF_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// Everything that complete answers must agree on.
fn essence(answer: &Answer) -> String {
    let assertions = match &answer.assertions {
        Assertions::None => "none",
        Assertions::Hold => "hold",
        Assertions::Fail(_) => "fail",
        Assertions::Unknown => "unknown",
    };
    format!(
        "states {:?}\nrobust {:?} {:?} {:?}\nassertions {assertions}",
        answer.states,
        answer.robust.strict.known(),
        answer.robust.event.known(),
        answer.robust.state.known(),
    )
}

fn agree(program: &Program, options: &Options) -> Result<(), TestCaseError> {
    let source = program.source();
    let test = crashproof_litmus::parse(&source)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{source}")))?;
    let exhaustive = crashproof_litmus::exhaustive::run(&test, options);
    let lazy = crashproof_litmus::lazy::engine::run(&test, options);
    // A program too large for either engine says nothing about agreement.
    prop_assume!(exhaustive.complete() && lazy.complete());
    prop_assert_eq!(essence(&exhaustive), essence(&lazy), "\n{}", source);
    let axiomatic = crashproof_prove::axiomatic::run(&test, options);
    prop_assert_eq!(essence(&exhaustive), essence(&axiomatic), "\nexhaustive, axiomatic\n{}", source);
    if test.recover.is_none() {
        let robust = &exhaustive.robust;
        let [strict, event, state] = [&robust.strict, &robust.event, &robust.state].map(|v| v.known());
        prop_assert!(strict <= event && event <= state, "strict implies event implies state\n{}", source);
    }
    Ok(())
}

fn check(options: Options, default_cases: u32) {
    check_programs(program(Size::default()), options, default_cases);
}

fn check_programs(programs: impl Strategy<Value = Program>, options: Options, default_cases: u32) {
    let cases = cases(default_cases);
    let config = Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&programs, |program| agree(&program, &options));
    if let Err(failure) = result {
        panic!("{failure}");
    }
    println!("tried | {} | {cases} | three engines agree |", std::thread::current().name().unwrap_or("?"));
}

fn options() -> Options {
    let mut options = Options::default();
    options.limits.states = 200_000;
    options
}

#[test]
fn engines_agree() {
    check(options(), 400);
}

#[test]
fn engines_agree_when_recovery_crashes() {
    check(Options { crashes: 2, ..options() }, 150);
}

#[test]
fn engines_agree_with_persistent_caches() {
    check(Options { domain: Domain::Eadr, ..options() }, 100);
}

#[test]
fn engines_agree_with_both_kinds_of_lines() {
    check_programs(program_with_domains(Size::default()), options(), 200);
}

#[test]
fn engines_agree_with_both_kinds_of_lines_when_recovery_crashes() {
    check_programs(program_with_domains(Size::default()), Options { crashes: 2, ..options() }, 80);
}
