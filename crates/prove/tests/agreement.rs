//! The formula agrees with the exhaustive machine on random programs, in both crash encodings, with every solver.
//! Failing programs are shrunk and printed as litmus files.

use crashproof_litmus::answer::{Answer, Assertions, Options};
use crashproof_litmus::arbitrary::{Program, Size, branching_program, counting_program, program};
use crashproof_ordersat::SolverKind;
use crashproof_prove::axiomatic::{Choices, run_with};
use crashproof_prove::encode::{CrashEncoding, Settings};
use crashproof_prove::prove::{self, Verdict};
use crashproof_prove::robust;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use px86::Domain;

type Essence = (Vec<Vec<i64>>, [Option<bool>; 3], Option<bool>);

fn essence(answer: &Answer) -> Essence {
    let robust = &answer.robust;
    let assertions = match answer.assertions {
        Assertions::None | Assertions::Hold => Some(true),
        Assertions::Fail(_) => Some(false),
        Assertions::Unknown => None,
    };
    let verdicts = [&robust.strict, &robust.event, &robust.state].map(|verdict| verdict.known());
    (answer.states.clone(), verdicts, assertions)
}

fn agree(program: &Program, options: &Options, choices: Choices) -> Result<(), TestCaseError> {
    let source = program.source();
    let test = crashproof_litmus::parse(&source)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{source}")))?;
    let exhaustive = crashproof_litmus::exhaustive::run(&test, options);
    prop_assume!(exhaustive.complete());
    let axiomatic = run_with(&test, options, choices);
    prop_assert!(axiomatic.complete(), "{:?}\n{}", axiomatic.incomplete, source);
    prop_assert_eq!(essence(&axiomatic), essence(&exhaustive), "axiomatic, exhaustive\n{}", source);
    Ok(())
}

fn check(options: Options, choices: Choices, size: Size, default_cases: u32) {
    check_those(program(size), options, choices, default_cases);
}

fn check_those(
    programs: impl Strategy<Value = Program>,
    options: Options,
    choices: Choices,
    default_cases: u32,
) {
    let cases = std::env::var("CRASHPROOF_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default_cases);
    let config = Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&programs, |program| agree(&program, &options, choices));
    if let Err(failure) = result {
        panic!("{failure}");
    }
    println!(
        "tried | {} | {cases} | the machine and the formula agree |",
        std::thread::current().name().unwrap_or("?")
    );
}

/// PMVerify's algorithm computes the machine's robustness by event, in both crash encodings.
fn robustness_agrees(program: &Program) -> Result<(), TestCaseError> {
    let source = program.source();
    let test = crashproof_litmus::parse(&source)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{source}")))?;
    let exhaustive = crashproof_litmus::exhaustive::run(&test, &options());
    let Some(expected) = exhaustive.robust.event.known() else { return Ok(()) };
    for crash in [CrashEncoding::Full, CrashEncoding::Partial] {
        let settings = Settings { crash, ..Settings::default() };
        let options = prove::Options { settings, ..prove::Options::default() };
        let report = robust::prove(&crashproof_prove::litmus::program(&test), &options)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{source}")))?;
        let found = match report.verdict {
            Verdict::Holds => true,
            Verdict::Violated(_) => false,
            Verdict::Unknown(reasons) => return Err(TestCaseError::fail(format!("{reasons:?}\n{source}"))),
        };
        prop_assert_eq!(found, expected, "{:?}\n{}", crash, source);
    }
    Ok(())
}

#[test]
fn pmverifys_algorithm_agrees() {
    let cases = std::env::var("CRASHPROOF_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let config = Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() };
    let result =
        TestRunner::new(config).run(&program(Size::default()), |program| robustness_agrees(&program));
    if let Err(failure) = result {
        panic!("{failure}");
    }
    println!("tried | pmverifys_algorithm_agrees | {cases} | PMVerify's algorithm and the machine agree |");
}

fn options() -> Options {
    let mut options = Options::default();
    options.limits.states = 200_000;
    options
}

const FULL: Choices = Choices { crash: CrashEncoding::Full, solver: SolverKind::Batsat };
const PARTIAL: Choices = Choices { crash: CrashEncoding::Partial, solver: SolverKind::Batsat };

#[test]
fn full_executions_agree() {
    check(options(), FULL, Size::default(), 300);
}

#[test]
fn partial_executions_agree() {
    check(options(), PARTIAL, Size::default(), 300);
}

/// Events that do not happen must not order anything.
#[test]
fn programs_with_branches_agree() {
    let size = Size { threads: 3, statements: 4 };
    check_those(branching_program(size), options(), FULL, 200);
    check_those(branching_program(size), options(), PARTIAL, 100);
}

/// The additional constraints on counters exclude nothing, and permit nothing new.
#[test]
fn counters_agree() {
    let size = Size { threads: 3, statements: 3 };
    check_those(counting_program(size), options(), FULL, 150);
    check_those(counting_program(size), options(), PARTIAL, 100);
}

#[test]
fn one_thread_agrees() {
    check(options(), FULL, Size { threads: 1, statements: 9 }, 150);
}

#[test]
fn crashes_in_recovery_agree() {
    check(Options { crashes: 2, ..options() }, FULL, Size::default(), 60);
}

#[test]
fn persistent_caches_agree() {
    let options = Options { domain: Domain::Eadr, ..options() };
    check(options, FULL, Size::default(), 100);
    check(options, PARTIAL, Size::default(), 100);
}

#[cfg(feature = "cadical")]
#[test]
fn cadical_agrees() {
    check(options(), Choices { solver: SolverKind::Cadical, ..FULL }, Size::default(), 100);
}
