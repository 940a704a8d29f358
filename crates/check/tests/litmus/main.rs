//! Compares real programs with the ground truth: random litmus programs, translated to C, compiled, checked.
//!
//! With one thread, recovery can find exactly what the exhaustive machine says may survive. With several, the schedules
//! tried determine how much of that is found, but nothing else ever is. Some locations may be in volatile memory then:
//! the machine does not know that, so its results for them are ignored.
//!
//! Recovery reads all locations and ends with an exit code that encodes what it saw, so that every outcome
//! is a finding of its own.

mod to_c;

use std::collections::BTreeSet;

use crashproof_check::{Budget, Failure, Options, Report, Token, check, replay};
use crashproof_litmus::answer;
use crashproof_litmus::arbitrary::{Guard, Program, Size, guarded_program, program};
use crashproof_litmus::{Code, Op, Test};
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use px86::{Domain, Platform};
use to_c::{FLAGS, Form, LOCKS, SPIN_LOCKS, TRIED_LOCKS, Wait, to_c};

/// The largest value that the encoding supports; programs with larger ones are skipped.
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

/// The outcomes that a check found.
fn found(report: &Report, about: &str) -> BTreeSet<i32> {
    let code = |finding: &crashproof_check::FailedRecovery| match finding.failure {
        Failure::Exit(code) => code,
        ref other => panic!("{other:?}\n{about}"),
    };
    report.findings.iter().map(code).collect()
}

/// Was a missing flush reported, by itself or as the cause of a "failure"?
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
        let c = to_c(&test, &Form::default());
        if all.iter().any(|&code| code >= 200) || all.len() < 2 {
            continue;
        }
        std::fs::write(&source, &c).expect("written");
        crashproof_toolchain::testing::compile(&source, &binary, &[]);
        for (platform, truth) in truths {
            let about = format!("{platform:?}\n{litmus}\n{c}");
            // Every outcome counts as a failure here, so nothing may be set aside because its cause is known.
            let mut options = Options { platform, ..Options::new(binary.clone(), Vec::new()) };
            options.exhaustive = true;
            let report = check(&options).unwrap_or_else(|error| panic!("{error}\n{about}"));
            let codes: Option<BTreeSet<i32>> = truth.states.iter().map(|state| code(state)).collect();
            assert_eq!(Some(found(&report, &about)), codes, "\n{about}");
            options.exhaustive = false;
            let brief = check(&options).unwrap_or_else(|error| panic!("{error}\n{about}"));
            assert!(found(&brief, &about).is_subset(&found(&report, &about)), "\n{about}");
            assert!(report.unknown.is_empty(), "{:?}", report.unknown);
            // A violation is reported if and only if there is one.
            let robust = truth.robust.strict.known().expect("small programs are decided");
            assert_eq!(violated(&report), !robust, "\n{about}\n{:?}\n{:?}", truth.robust, report.violations);
            *(if robust { &mut robust_ones } else { &mut others }) += 1;
        }
        compared += 1;
    }
    println!(
        "tried | random programs compiled to C, with and without eADR | {compared} | outcomes and robustness as the \
         exhaustive machine says ({robust_ones} robust, {others} not) |"
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
        let form = Form { volatile_line: volatile_line(&test, compared), ..Form::default() };
        let domain = [Domain::Adr, Domain::Adr, Domain::Eadr][compared % 3];
        let truth =
            crashproof_litmus::exhaustive::run(&test, &answer::Options { domain, ..Default::default() });
        let persistent = |state: &Vec<i64>| -> Vec<i64> {
            let locations = test.location_ids().zip(state);
            locations.filter(|(at, _)| form.is_seen(&test, *at)).map(|(_, value)| *value).collect()
        };
        let codes: Option<BTreeSet<i32>> =
            truth.states.iter().map(|state| code(&persistent(state))).collect();
        let Some(codes) = codes else { continue };
        let c = to_c(&test, &form);
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
        if form.volatile_line.is_none() {
            not_robust += usize::from(!robust);
            violations += usize::from(violated(&report));
        }
        (outcomes, met) = (outcomes + codes.len(), met + found.len());
        compared += 1;
    }
    println!(
        "tried | programs with threads, 48 schedules from seeds | {compared} | {met} of {outcomes} outcomes met, and no \
         other; {violations} of {not_robust} that are not robust were seen not to be |"
    );
    assert!(met * 2 > outcomes, "schedules show next to nothing: {met} of {outcomes}");
}

/// For every other program, a line to place in volatile memory: one that is used, if possible.
fn volatile_line(test: &Test, number: usize) -> Option<usize> {
    let named = |name: &str| test.location_ids().find(|at| test.location(*at).name == name);
    let at = named(["z", "y", "x"][number / 2 % 3]).filter(|_| number % 2 == 1)?;
    Some(test.location(at).line).filter(|_| test.lines > 1)
}

/// A kind of random program: how they are generated, and how their threads wait.
struct Family {
    programs: BoxedStrategy<Program>,
    waits: &'static [Wait],
}

fn families() -> Vec<Family> {
    let mut families: Vec<Family> = [Size { threads: 2, statements: 5 }, Size { threads: 3, statements: 3 }]
        .map(|size| Family { programs: program(size).boxed(), waits: &[] })
        .into();
    let guards = [
        (Guard::Lock, LOCKS),
        (Guard::Flag, FLAGS),
        (Guard::SpinLock, SPIN_LOCKS),
        (Guard::TriedLock, TRIED_LOCKS),
    ];
    for (number, (guard, waits)) in guards.into_iter().enumerate() {
        let size = Size { threads: 2 + number % 2, statements: 4 - number % 2 * 2 };
        families.push(Family { programs: guarded_program(size, guard).boxed(), waits });
    }
    families
}

/// The `number`th random program to try, and its form.
fn random(families: &[Family], number: usize, runner: &mut TestRunner) -> (String, Test, Form) {
    // Half of the programs do not wait.
    let half = number / 2 % 2 + if number.is_multiple_of(2) { 0 } else { 2 + number / 4 % 2 * 2 };
    let family = &families[half % families.len()];
    let litmus = family.programs.new_tree(runner).expect("a program").current().source();
    let mut test = crashproof_litmus::parse(&litmus).expect("random programs are well-formed");
    test.recover = None;
    let wait = (!family.waits.is_empty()).then(|| &family.waits[number / 8 % family.waits.len()]);
    let mut form = Form { volatile_line: None, mixed_sizes: number / 3 % 2 == 1, wait };
    form.volatile_line = match wait {
        None => volatile_line(&test, number / 2),
        // The location waited for is in volatile memory, or is not a memory location at all.
        Some(_) if form.is_location() && number / 16 % 2 == 1 => None,
        Some(_) => {
            test.location_ids().map(|at| test.location(at)).find(|at| at.name == "w").map(|at| at.line)
        }
    };
    (litmus, test, form)
}

/// With all schedules explored, the outcomes equal those of the exhaustive machine.
#[test]
fn all_schedules_show_exactly_what_the_exhaustive_machine_does() {
    let wanted = programs(100);
    let directory = crashproof_toolchain::testing::scratch("litmus-all-schedules");
    let (source, binary) = (directory.join("program.c"), directory.join("program"));
    let mut runner = TestRunner::new(Config::default());
    let families = families();
    let (mut compared, mut tried, mut outcomes, mut schedules, mut redundant) = (0, 0, 0, 0, 0);
    let (mut volatile, mut waiting) = (0, 0);
    while compared < wanted {
        tried += 1;
        let (litmus, test, form) = random(&families, tried, &mut runner);
        if test.threads.len() < 2 {
            continue;
        }
        // In volatile memory, non-temporal stores are ordinary stores.
        let is_volatile = |at: &crashproof_litmus::LocId| form.volatile_line == Some(test.location(*at).line);
        let streams = |op: &Op| matches!(op, Op::NonTemporal(at, _) if is_volatile(at));
        if test.threads.iter().flat_map(|code| &code.instructions).any(|one| streams(&one.op)) {
            continue;
        }
        let domain = [Domain::Adr, Domain::Adr, Domain::Eadr][compared % 3];
        let truth =
            crashproof_litmus::exhaustive::run(&test, &answer::Options { domain, ..Default::default() });
        let persistent = |state: &Vec<i64>| -> Vec<i64> {
            let locations = test.location_ids().zip(state);
            locations.filter(|(at, _)| form.is_seen(&test, *at)).map(|(_, value)| *value).collect()
        };
        let codes: Option<BTreeSet<i32>> =
            truth.states.iter().map(|state| code(&persistent(state))).collect();
        let Some(codes) = codes else { continue };
        let c = to_c(&test, &form);
        if codes.iter().any(|&code| code >= 200) || codes.len() < 2 || !truth.complete() {
            continue;
        }
        volatile += usize::from(form.volatile_line.is_some());
        waiting += usize::from(form.wait.is_some());
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
        // Tokens reproduce the findings.
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
        "tried | programs with threads, all schedules | {compared} | {outcomes} outcomes, exactly those of the exhaustive \
         machine, in {schedules} schedules ({redundant} more were redundant; {volatile} programs share volatile memory, in \
         {waiting} threads wait for each other) |"
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
        // Recoveries that change nothing are covered by the test above.
        let interesting = test.threads.iter().any(may_store) && test.recover.as_ref().is_some_and(may_store);
        let asserts = |code: &Code| code.instructions.iter().any(|one| matches!(one.op, Op::Assert(_)));
        let changes =
            || crashproof_litmus::exhaustive::run(&test, &answer::Options::default()).states.len() > 1;
        if !interesting || !test.recover.as_ref().is_some_and(asserts) || !changes() {
            continue;
        }
        std::fs::write(&source, to_c(&test, &Form::default())).expect("written");
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
        "tried | recoveries that store, crashed up to three times | {compared} | as the exhaustive machine says: \
         {failing} fail after one crash, {only_second} only after more |"
    );
}
