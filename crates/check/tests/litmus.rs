//! Real programs against the ground truth: random litmus programs, turned into C, compiled, checked.
//!
//! With one thread, what recovery can find is exactly what the exhaustive machine says may survive. With several, it
//! depends on which schedules are tried how much of that is found; but nothing else ever is. Some locations may be in
//! volatile memory then: the machine does not know that, so what it says of them is not looked at.
//!
//! Recovery reads all locations and ends with an exit code that encodes what it saw, so that every outcome
//! is a finding of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crashproof_check::{Budget, Failure, Options, Report, Token, check, replay};
use crashproof_litmus::answer;
use crashproof_litmus::arbitrary::{Size, program};
use crashproof_litmus::{Code, Op, Rmw, Test};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use px86::{Domain, Platform};

/// Values that fit the code; programs with others are skipped.
const VALUES: i64 = 4;

/// How many programs to compare; more for `make soak`.
fn programs(usual: usize) -> usize {
    std::env::var("CRASHPROOF_PROGRAMS").map_or(usual, |text| text.parse().expect("a number"))
}

/// The exit code for an outcome, from 1 on.
fn code(outcome: &[i64]) -> Option<i32> {
    outcome
        .iter()
        .try_fold(0, |code, &value| (0..VALUES).contains(&value).then(|| code * VALUES as i32 + value as i32))
        .map(|code| code + 1)
}

/// A block as C.
fn block(test: &Test, code: &Code) -> String {
    let place = |at: crashproof_litmus::LocId| {
        let location = test.location(at);
        format!("l{}.{}", location.line, location.name)
    };
    let instructions = &code.instructions;
    let mut text = String::new();
    for (index, instruction) in instructions.iter().enumerate() {
        let _ = write!(text, "i{index}: ; ");
        let _ = match &instruction.op {
            Op::Assign(register, value) => writeln!(text, "r[{}] = {};", register.0, expression(value)),
            Op::Load(register, at) => writeln!(text, "r[{}] = {};", register.0, place(*at)),
            Op::Store(at, value) => writeln!(text, "{} = {};", place(*at), expression(value)),
            Op::NonTemporal(at, value) => {
                // The barrier keeps the compiler from dropping a store that the next one overwrites.
                let barrier = "__asm__ volatile(\"\" ::: \"memory\");";
                writeln!(
                    text,
                    "_mm_stream_si64((long long *)&{}, {}); {barrier}",
                    place(*at),
                    expression(value)
                )
            }
            Op::Rmw(register, at, rmw) => {
                let old = match rmw {
                    Rmw::Cas(expected, new) => format!(
                        "__sync_val_compare_and_swap(&{}, {}, {})",
                        place(*at),
                        expression(expected),
                        expression(new)
                    ),
                    Rmw::Faa(add) => {
                        format!("__sync_fetch_and_add(&{}, {})", place(*at), expression(add))
                    }
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
            Op::Assert(condition) => writeln!(text, "crashproof_assert({});", expression(condition)),
        };
    }
    let _ = writeln!(text, "i{}: ;", instructions.len());
    text
}

/// The test as C, with the locations of one line in volatile memory. A test of one thread does without creating any.
fn to_c(test: &Test, volatile_line: Option<usize>) -> String {
    let mut text = String::from(
        "#include <crashproof.h>\n#include <immintrin.h>\n#include <pthread.h>\n#include <stdlib.h>\n",
    );
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
        let memory = if volatile_line == Some(line) { "static" } else { "PERSISTENT" };
        let _ = writeln!(text, "{memory} struct line{line} l{line} = {{ {} }};", init.join(", "));
    }
    let place = |at: crashproof_litmus::LocId| {
        let location = test.location(at);
        format!("l{}.{}", location.line, location.name)
    };
    for (number, thread) in test.threads.iter().enumerate() {
        let _ = writeln!(text, "static void *run{number}(void *unused) {{\n  long r[8] = {{0}};");
        let _ = writeln!(text, "{}  return unused;\n}}", block(test, thread));
    }
    text.push_str("int main(void) {\n  if (!crashproof_crashes()) {\n");
    let count = test.threads.len();
    if count == 1 {
        text.push_str("    run0(0);\n");
    } else {
        let _ = writeln!(text, "    pthread_t threads[{count}];");
        for number in 0..count {
            let _ = writeln!(text, "    pthread_create(&threads[{number}], 0, run{number}, 0);");
        }
        let _ = writeln!(text, "    for (int i = 0; i < {count}; i++) pthread_join(threads[i], 0);");
    }
    text.push_str("    return 0;\n  }\n");
    if let Some(recover) = &test.recover {
        let _ = writeln!(text, "  long r[8] = {{0}};\n{}  (void)r;\n  return 0;\n}}", block(test, recover));
        return text;
    }
    text.push_str("  long code = 0;\n");
    for at in test.location_ids().filter(|at| volatile_line != Some(test.location(*at).line)) {
        let _ = writeln!(text, "  code = code * {VALUES} + {};", place(at));
    }
    text.push_str("  exit((int)code + 1);\n}\n");
    text
}

fn expression(expr: &crashproof_litmus::Expr) -> String {
    use crashproof_litmus::{BinaryOp, Expr, UnaryOp};
    match expr {
        Expr::Int(value) => value.to_string(),
        Expr::Variable(register) => format!("r[{register}]"),
        Expr::Unary(UnaryOp::Not, inner) => format!("!{}", expression(inner)),
        Expr::Binary(operation, left, right) => {
            let operation = match operation {
                BinaryOp::Add => "+",
                BinaryOp::Equal => "==",
                BinaryOp::NotEqual => "!=",
                BinaryOp::LessEqual => "<=",
                BinaryOp::And => "&&",
                BinaryOp::Or => "||",
                other => unreachable!("random programs have no {other:?}"),
            };
            format!("({} {operation} {})", expression(left), expression(right))
        }
        other @ Expr::Unary(..) => unreachable!("random programs have no {other:?}"),
    }
}

/// The outcomes that a check found.
fn found(report: &Report, about: &str) -> BTreeSet<i32> {
    let code = |finding: &crashproof_check::FailedRecovery| match finding.failure {
        Failure::Exit(code) => code,
        ref other => panic!("{other:?}\n{about}"),
    };
    report.findings.iter().map(code).collect()
}

/// Was a missing flush reported: by itself, or as the cause of a "failure"?
fn violated(report: &Report) -> bool {
    report.findings.iter().any(|finding| finding.cause.is_some()) || !report.violations.is_empty()
}

#[test]
fn what_recovery_finds_is_what_the_exhaustive_machine_says() {
    let wanted = programs(25);
    let directory = crashproof_toolchain::testing::scratch("litmus");
    let (source, binary) = (directory.join("program.c"), directory.join("program"));
    let mut runner = TestRunner::new(Config::default());
    let strategy = program(Size { threads: 1, statements: 8 });
    let mut compared = 0;
    let (mut robust_ones, mut others) = (0, 0);
    while compared < wanted {
        let litmus = strategy.new_tree(&mut runner).expect("a program").current().source();
        let mut test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
        test.recover = None;
        let truths = [Domain::Adr, Domain::Eadr].map(|domain| {
            let options = answer::Options { domain, ..answer::Options::default() };
            (Platform::all(domain), crashproof_litmus::exhaustive::run(&test, &options))
        });
        let all: Option<BTreeSet<i32>> = truths[0].1.states.iter().map(|state| code(state)).collect();
        let stores = test.threads.iter().flat_map(|code| &code.instructions).any(|i| i.op.may_store());
        let (Some(all), true) = (all, stores) else { continue };
        let c = to_c(&test, None);
        if all.iter().any(|&code| code >= 200) || all.len() < 2 {
            continue;
        }
        std::fs::write(&source, &c).expect("written");
        crashproof_toolchain::testing::compile(&source, &binary, &[]);
        for (platform, truth) in truths {
            let about = format!("{platform:?}\n{litmus}\n{c}");
            // Every outcome counts as a failure here, so nothing may be set aside as a cause that is known already.
            let mut options = Options { platform, ..Options::new(binary.clone(), Vec::new()) };
            options.exhaustive = true;
            let report = check(&options).unwrap_or_else(|error| panic!("{error}\n{about}"));
            let codes: Option<BTreeSet<i32>> = truth.states.iter().map(|state| code(state)).collect();
            assert_eq!(Some(found(&report, &about)), codes, "\n{about}");
            options.exhaustive = false;
            let brief = check(&options).unwrap_or_else(|error| panic!("{error}\n{about}"));
            assert!(found(&brief, &about).is_subset(&found(&report, &about)), "\n{about}");
            assert!(report.unknown.is_empty(), "{:?}", report.unknown);
            // A violation is reported exactly if there is one.
            let robust = truth.robust.strict.known().expect("small programs are decided");
            assert_eq!(violated(&report), !robust, "\n{about}\n{:?}\n{:?}", truth.robust, report.violations);
            *(if robust { &mut robust_ones } else { &mut others }) += 1;
        }
        compared += 1;
    }
    println!(
        "{compared} random programs compiled and checked, on machines whose caches are lost and on others; all outcomes \
         agree with the exhaustive machine, and so does robustness: {robust_ones} robust, {others} not"
    );
}

#[test]
fn threads_show_nothing_that_the_exhaustive_machine_does_not() {
    let wanted = programs(20);
    let directory = crashproof_toolchain::testing::scratch("litmus-threads");
    let (source, binary) = (directory.join("program.c"), directory.join("program"));
    let mut runner = TestRunner::new(Config::default());
    let strategy = program(Size { threads: 3, statements: 4 });
    let (mut compared, mut outcomes, mut met) = (0, 0, 0);
    let (mut not_robust, mut violations) = (0, 0);
    while compared < wanted {
        let litmus = strategy.new_tree(&mut runner).expect("a program").current().source();
        let mut test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
        test.recover = None;
        if test.threads.len() < 2 {
            continue;
        }
        // Every other program has a line in volatile memory.
        let volatile_line = (compared % 2 == 1).then_some(test.lines - 1).filter(|_| test.lines > 1);
        let is_persistent = |at: &crashproof_litmus::LocId| volatile_line != Some(test.location(*at).line);
        let domain = [Domain::Adr, Domain::Adr, Domain::Eadr][compared % 3];
        let truth =
            crashproof_litmus::exhaustive::run(&test, &answer::Options { domain, ..Default::default() });
        let persistent = |state: &Vec<i64>| -> Vec<i64> {
            let locations = test.location_ids().zip(state);
            locations.filter(|(at, _)| is_persistent(at)).map(|(_, value)| *value).collect()
        };
        let codes: Option<BTreeSet<i32>> =
            truth.states.iter().map(|state| code(&persistent(state))).collect();
        let Some(codes) = codes else { continue };
        let c = to_c(&test, volatile_line);
        if codes.iter().any(|&code| code >= 200) || codes.len() < 2 || !truth.complete() {
            continue;
        }
        std::fs::write(&source, &c).expect("written");
        crashproof_toolchain::testing::compile(&source, &binary, &[]);
        let mut options = Options::new(binary.clone(), Vec::new());
        options.schedules = 48;
        options.platform = Platform::all(domain);
        let report = check(&options).unwrap_or_else(|error| panic!("{error}\n{litmus}"));
        let found = found(&report, &format!("{litmus}\n{c}"));
        assert!(report.unknown.is_empty(), "{:?}", report.unknown);
        let invented: Vec<_> = found.difference(&codes).collect();
        assert!(invented.is_empty(), "{invented:?} cannot be\n{litmus}\n{c}");
        let robust = truth.robust.strict.known().expect("small programs are decided");
        assert!(!robust || !violated(&report), "it is robust\n{litmus}\n{c}\n{:?}", report.violations);
        if volatile_line.is_none() {
            not_robust += usize::from(!robust);
            violations += usize::from(violated(&report));
        }
        (outcomes, met) = (outcomes + codes.len(), met + found.len());
        compared += 1;
    }
    println!(
        "{compared} random programs of several threads: {met} of {outcomes} outcomes met in 48 schedules, and no other; \
         {violations} of {not_robust} that are not robust were seen not to be"
    );
    assert!(met * 2 > outcomes, "schedules show next to nothing: {met} of {outcomes}");
}

/// With all schedules explored, outcomes are those of the exhaustive machine, in both directions.
#[test]
fn all_schedules_show_exactly_what_the_exhaustive_machine_does() {
    let wanted = programs(100);
    let directory = crashproof_toolchain::testing::scratch("litmus-all-schedules");
    let (source, binary) = (directory.join("program.c"), directory.join("program"));
    let mut runner = TestRunner::new(Config::default());
    let sizes = [Size { threads: 2, statements: 5 }, Size { threads: 3, statements: 3 }].map(program);
    let (mut compared, mut tried, mut outcomes, mut schedules, mut redundant) = (0, 0, 0, 0, 0);
    while compared < wanted {
        tried += 1;
        let litmus = sizes[tried % 2].new_tree(&mut runner).expect("a program").current().source();
        let mut test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
        test.recover = None;
        if test.threads.len() < 2 {
            continue;
        }
        // Every other program has a line in volatile memory, where non-temporal stores are ordinary instructions.
        let volatile_line = (compared % 2 == 1).then_some(test.lines - 1).filter(|_| test.lines > 1);
        let is_persistent = |at: &crashproof_litmus::LocId| volatile_line != Some(test.location(*at).line);
        let streams = |op: &Op| matches!(op, Op::NonTemporal(at, _) if !is_persistent(at));
        if test.threads.iter().flat_map(|code| &code.instructions).any(|one| streams(&one.op)) {
            continue;
        }
        let domain = [Domain::Adr, Domain::Adr, Domain::Eadr][compared % 3];
        let truth =
            crashproof_litmus::exhaustive::run(&test, &answer::Options { domain, ..Default::default() });
        let persistent = |state: &Vec<i64>| -> Vec<i64> {
            let locations = test.location_ids().zip(state);
            locations.filter(|(at, _)| is_persistent(at)).map(|(_, value)| *value).collect()
        };
        let codes: Option<BTreeSet<i32>> =
            truth.states.iter().map(|state| code(&persistent(state))).collect();
        let Some(codes) = codes else { continue };
        let c = to_c(&test, volatile_line);
        if codes.iter().any(|&code| code >= 200) || codes.len() < 2 || !truth.complete() {
            continue;
        }
        std::fs::write(&source, &c).expect("written");
        crashproof_toolchain::testing::compile(&source, &binary, &[]);
        let mut options = Options::new(binary.clone(), Vec::new());
        options.all_schedules = Some(Budget { max_schedules: Some(200_000), ..Budget::default() });
        // Every outcome is a failure here: none may be set aside because another one is known.
        options.exhaustive = true;
        options.platform = Platform::all(domain);
        options.robust = false;
        let report = check(&options).unwrap_or_else(|error| panic!("{error}\n{litmus}"));
        let about = format!("{domain:?} {:?}\n{litmus}\n{c}", report.statistics);
        let found = found(&report, &about);
        assert!(report.unknown.is_empty(), "{:?}\n{about}", report.unknown);
        assert_eq!(found, codes, "left: check, right: the exhaustive machine\n{about}");
        // What was found is found again by its token.
        if compared % 5 == 0 {
            for finding in &report.findings {
                let token = Token::decode(&finding.replay).expect("a token");
                let again = replay(&token, binary.clone(), None, None, false)
                    .unwrap_or_else(|error| panic!("{error}\n{about}"));
                assert_eq!(again.failure.as_ref(), Some(&finding.failure), "{about}\n{token:?}");
            }
        }
        outcomes += codes.len();
        schedules += report.statistics.schedules;
        redundant += report.statistics.redundant_schedules;
        compared += 1;
    }
    println!(
        "{compared} random programs of several threads, {outcomes} outcomes in {schedules} schedules \
         ({redundant} more were redundant): exactly those of the exhaustive machine"
    );
}

#[test]
fn recoveries_that_crash_fail_where_the_exhaustive_machine_says() {
    let wanted = programs(25);
    let directory = crashproof_toolchain::testing::scratch("litmus-recoveries");
    let (source, binary) = (directory.join("program.c"), directory.join("program"));
    let mut runner = TestRunner::new(Config::default());
    let strategy = program(Size { threads: 1, statements: 6 });
    let (mut compared, mut failing, mut only_second) = (0, 0, 0);
    while compared < wanted {
        let litmus = strategy.new_tree(&mut runner).expect("a program").current().source();
        let test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
        let may_store = |code: &Code| code.instructions.iter().any(|instruction| instruction.op.may_store());
        // Recoveries that change nothing are like the ones above.
        let interesting = test.threads.iter().any(may_store) && test.recover.as_ref().is_some_and(may_store);
        let asserts = |code: &Code| code.instructions.iter().any(|one| matches!(one.op, Op::Assert(_)));
        let changes =
            || crashproof_litmus::exhaustive::run(&test, &answer::Options::default()).states.len() > 1;
        if !interesting || !test.recover.as_ref().is_some_and(asserts) || !changes() {
            continue;
        }
        std::fs::write(&source, to_c(&test, None)).expect("written");
        crashproof_toolchain::testing::compile(&source, &binary, &[]);
        for domain in [Domain::Adr, Domain::Eadr] {
            let fails = [1, 2, 3].map(|crashes| {
                let options = answer::Options { crashes, domain, ..answer::Options::default() };
                let truth = match crashproof_litmus::exhaustive::run(&test, &options).assertions {
                    answer::Assertions::Fail(_) => true,
                    answer::Assertions::Hold => false,
                    other => panic!("{other:?}\n{litmus}"),
                };
                let mut options =
                    Options { platform: Platform::all(domain), ..Options::new(binary.clone(), Vec::new()) };
                options.crashes = crashes as usize;
                let report = check(&options).unwrap_or_else(|error| panic!("{error}\n{litmus}"));
                assert_eq!(!report.findings.is_empty(), truth, "{crashes} crashes, {domain:?}\n{litmus}");
                truth
            });
            failing += usize::from(fails[0]);
            only_second += usize::from(!fails[0] && fails[2]);
        }
        compared += 1;
    }
    println!(
        "{compared} random programs with recoveries that store, crashed up to three times: {failing} fail after one \
         crash, {only_second} only after more; all as the exhaustive machine says"
    );
}
