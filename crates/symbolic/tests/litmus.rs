//! Compares the front end with the ground truth: random litmus programs are translated to C, compiled, unrolled and
//! proved. Recovery can find exactly what the exhaustive machine says may survive.
//!
//! For every conceivable outcome, recovery claims that it does not occur; the claims that can be refuted are the
//! outcomes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crashproof_litmus::arbitrary::{Program, Size, branching_program, program};
use crashproof_litmus::exhaustive;
use crashproof_litmus::{BinaryOp, Expr, LocId, Op, Rmw, Test, answer};
use crashproof_ordersat::{Limits, Outcome};
use crashproof_prove::encode::{Encoder, Settings, Wrong};
use crashproof_prove::values::Analysis;
use crashproof_symbolic::Options;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};

/// Locations hold 0 to 3; programs with other values are skipped.
const VALUES: i64 = 4;

/// More conceivable outcomes than this make tests slow.
const MOST: usize = 256;

fn place(test: &Test, at: LocId) -> String {
    let location = test.location(at);
    format!("l{}.{}", location.line, location.name)
}

/// The claim that an outcome does not occur, as C and as the prover's message.
fn claim(test: &Test, outcome: &[i64]) -> String {
    let equal: Vec<String> = test
        .location_ids()
        .zip(outcome)
        .map(|(at, value)| format!("{} == {value}", place(test, at)))
        .collect();
    format!("!({})", equal.join(" && "))
}

/// All conceivable outcomes.
fn thinkable(test: &Test) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for _ in test.location_ids() {
        let longer = |outcome: &Vec<i64>| {
            (0..VALUES).map(|value| [outcome.as_slice(), &[value]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn expression(expr: &Expr) -> String {
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

fn statement(test: &Test, op: &Op) -> Option<String> {
    let place = |at: LocId| place(test, at);
    Some(match op {
        Op::Assign(register, value) => format!("r[{}] = {};", register.0, expression(value)),
        Op::Load(register, at) => format!("r[{}] = {};", register.0, place(*at)),
        Op::Store(at, value) => format!("{} = {};", place(*at), expression(value)),
        Op::NonTemporal(at, value) => {
            format!("_mm_stream_si64((long long *)&{}, {});", place(*at), expression(value))
        }
        Op::Rmw(register, at, rmw) => {
            let at = place(*at);
            let old = match rmw {
                Rmw::Cas(expected, new) => {
                    format!(
                        "__sync_val_compare_and_swap(&{at}, {}, {})",
                        expression(expected),
                        expression(new)
                    )
                }
                Rmw::Faa(add) => format!("__sync_fetch_and_add(&{at}, {})", expression(add)),
                Rmw::Xchg(new) => {
                    format!("__atomic_exchange_n(&{at}, {}, __ATOMIC_SEQ_CST)", expression(new))
                }
            };
            match register {
                Some(register) => format!("r[{}] = {old};", register.0),
                None => format!("(void){old};"),
            }
        }
        Op::Flush(at) => format!("_mm_clflush((void *)&{});", place(*at)),
        // Both spellings of the optimized flush, and both ways to write an instruction.
        Op::FlushOpt(at) if at.0 % 2 == 0 => format!("_mm_clflushopt((void *)&{});", place(*at)),
        Op::FlushOpt(at) => format!("__asm__ volatile(\"clwb %0\" : \"+m\"({}));", place(*at)),
        Op::StoreFence => "__asm__ volatile(\"sfence\" ::: \"memory\");".to_owned(),
        Op::Fence => "_mm_mfence();".to_owned(),
        Op::JumpIfZero(condition, target) => format!("if (!({})) goto i{target};", expression(condition)),
        Op::Jump(target) => format!("goto i{target};"),
        Op::Assert(_) => return None,
    })
}

/// The test as C; `None` if it uses something that the translation does not support.
fn to_c(test: &Test, outcomes: &[Vec<i64>]) -> Option<String> {
    let mut text = String::from("#include <crashproof.h>\n#include <immintrin.h>\n#include <pthread.h>\n");
    for line in 0..test.lines {
        let members = || test.locations.iter().filter(|location| location.line == line);
        let _ = writeln!(text, "struct line{line} {{");
        for location in members() {
            let _ = writeln!(text, "  volatile long {};", location.name);
        }
        let init: Vec<String> = members().map(|location| location.init.to_string()).collect();
        let _ = writeln!(text, "}} __attribute__((aligned(64)));");
        let _ = writeln!(text, "PERSISTENT struct line{line} l{line} = {{ {} }};", init.join(", "));
    }
    for (number, thread) in test.threads.iter().enumerate() {
        let _ = writeln!(text, "static void *thread{number}(void *unused) {{\n  long r[8] = {{0}};");
        for (index, instruction) in thread.instructions.iter().enumerate() {
            let _ = writeln!(text, "i{index}: ; {}", statement(test, &instruction.op)?);
        }
        let _ = writeln!(text, "i{}: ; (void)r; return unused;\n}}", thread.instructions.len());
    }
    text.push_str("int main(void) {\n");
    if test.threads.len() == 1 {
        text.push_str("  thread0(0);\n");
    } else {
        for number in 0..test.threads.len() {
            let _ =
                writeln!(text, "  pthread_t t{number}; pthread_create(&t{number}, 0, thread{number}, 0);");
        }
        for number in 0..test.threads.len() {
            let _ = writeln!(text, "  pthread_join(t{number}, 0);");
        }
    }
    text.push_str("  return 0;\n}\nvoid recover(void) {\n");
    for outcome in outcomes {
        let _ = writeln!(text, "  crashproof_assert({});", claim(test, outcome));
    }
    text.push_str("}\n");
    Some(text)
}

/// The claims that can be refuted.
fn refuted(source: PathBuf) -> BTreeSet<String> {
    let program = crashproof_symbolic::program(&[source], Vec::new(), &Options::default()).expect("unrolled");
    let analysis = Analysis::new(&program);
    let mut encoder = Encoder::new(&program, &analysis, Settings::default()).expect("a solver");
    assert!(encoder.limits.is_empty(), "{:?}", encoder.limits);
    encoder.finish();
    let mut found = BTreeSet::new();
    for violation in encoder.violations.clone() {
        let Wrong::Assertion(message) = violation.what else { panic!("an access outside") };
        match encoder.gates.solver.solve(&[violation.lit], &Limits::default()) {
            Outcome::Satisfiable => {
                found.insert(message);
            }
            Outcome::Unsatisfiable => {}
            Outcome::Unknown(why) => panic!("{why:?}"),
        }
    }
    found
}

fn compare(strategy: impl Strategy<Value = Program>, wanted: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("program.c");
    let mut runner = TestRunner::new(Config::default());
    let mut compared = 0;
    while compared < wanted {
        let litmus = strategy.new_tree(&mut runner).expect("a program").current().source();
        let mut test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
        test.recover = None;
        let outcomes = thinkable(&test);
        if outcomes.len() > MOST {
            continue;
        }
        let truth = exhaustive::run(&test, &answer::Options::default());
        let fits = truth.incomplete.is_empty()
            && truth.states.len() > 1
            && truth.states.iter().flatten().all(|value| (0..VALUES).contains(value));
        let (Some(c), true) = (to_c(&test, &outcomes), fits) else { continue };
        std::fs::write(&source, &c).expect("written");
        let expected: BTreeSet<String> = truth.states.iter().map(|state| claim(&test, state)).collect();
        assert_eq!(refuted(source.clone()), expected, "\n{litmus}\n{c}");
        compared += 1;
    }
    println!(
        "tried | programs compiled to C, proved: {} | {compared} | refuted where the machine says |",
        std::thread::current().name().unwrap_or("?")
    );
}

fn programs(usual: usize) -> usize {
    std::env::var("CRASHPROOF_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn one_thread() {
    compare(program(Size { threads: 1, statements: 8 }), programs(20));
}

#[test]
fn several_threads() {
    compare(program(Size { threads: 3, statements: 4 }), programs(40));
}

#[test]
fn branches() {
    compare(branching_program(Size { threads: 2, statements: 4 }), programs(30));
}
