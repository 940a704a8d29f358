//! Random litmus programs for property tests, shrinking towards short ones.
//!
//! Programs are made as text, so that a failing one can be read, saved and run as it is.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use px86::Domain;

/// How large the programs may be.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Most threads.
    pub threads: usize,
    /// Most statements a thread.
    pub statements: usize,
}

impl Default for Size {
    fn default() -> Self {
        Size { threads: 3, statements: 4 }
    }
}

/// A program by its parts, so that shrinking drops lines, threads and statements.
#[derive(Clone, Debug)]
pub struct Program {
    /// Locations of each line.
    lines: Vec<usize>,
    /// The persistence domain of each line; what is missing is the default.
    domains: Vec<Domain>,
    init: Vec<i64>,
    threads: Vec<Vec<String>>,
    recover: Option<Vec<String>>,
}

const NAMES: [&str; 4] = ["x", "y", "z", "w"];

impl Program {
    /// The program as text.
    pub fn source(&self) -> String {
        let mut text = String::from("litmus random\n");
        let mut names = NAMES.iter();
        let mut domains = self.domains.iter().map(|domain| format!("{} ", domain.name()));
        for &count in &self.lines {
            let line: Vec<&str> = names.by_ref().take(count).copied().collect();
            if !line.is_empty() {
                let domain = domains.next().unwrap_or_default();
                let _ = writeln!(text, "line {domain}{{ {} }}", line.join(", "));
            }
        }
        // Every name is declared, whatever the lines shrank to.
        for name in names {
            let _ = writeln!(text, "line {{ {name} }}");
        }
        let init: Vec<String> = NAMES
            .iter()
            .zip(&self.init)
            .filter(|(_, value)| **value != 0)
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        if !init.is_empty() {
            let _ = writeln!(text, "init {{ {} }}", init.join("; "));
        }
        let blocks = self.threads.iter().map(|body| ("thread", body));
        for (keyword, body) in blocks.chain(self.recover.iter().map(|body| ("recover", body))) {
            let _ = writeln!(text, "{keyword} {{");
            for statement in body {
                let _ = writeln!(text, "  {statement}");
            }
            text.push_str("}\n");
        }
        text
    }
}

/// Programs of at most `size`, with or without a recovery block.
pub fn program(size: Size) -> impl Strategy<Value = Program> {
    let lines = select(vec![vec![1, 1], vec![2], vec![1, 2], vec![2, 1], vec![1, 1, 1], vec![2, 2], vec![3]]);
    let threads = vec(vec(statement(), 0..=size.statements), 1..=size.threads);
    let recover = proptest::option::weighted(0.3, vec(recovery_statement(), 1..=5));
    (lines, vec(select(vec![0, 0, 0, 1]), 0..3), threads, recover).prop_map(
        |(lines, init, threads, recover)| {
            let domains = Vec::new();
            Program { lines, domains, init, threads, recover }
        },
    )
}

/// The same, with a persistence domain for each line.
pub fn program_with_domains(size: Size) -> impl Strategy<Value = Program> {
    let domains = vec(select(vec![Domain::Adr, Domain::Eadr]), 3);
    (program(size), domains).prop_map(|(program, domains)| Program { domains, ..program })
}

/// Programs of at most `size` in which most locked instructions, and some stores, happen only sometimes.
pub fn branching_program(size: Size) -> impl Strategy<Value = Program> {
    let locked = || {
        prop_oneof![
            3 => (register(), location(), 0..2i64, 1..3i64)
                .prop_map(|(register, at, old, new)| format!("{register} = cas({at}, {old}, {new});")),
            1 => (register(), location()).prop_map(|(register, at)| format!("{register} = faa({at}, 1);")),
            1 => (location(), 1..3i64).prop_map(|(at, value)| format!("xchg({at}, {value});")),
        ]
    };
    let plain = || simple_statement();
    let statement = prop_oneof![
        4 => (register(), locked()).prop_map(|(test, then)| format!("if ({test} == 1) {{ {then} }}")),
        2 => (register(), locked(), plain())
            .prop_map(|(test, then, other)| format!("if ({test} == 0) {{ {then} }} else {{ {other} }}")),
        1 => (register(), plain()).prop_map(|(test, then)| format!("if ({test} == 1) {{ {then} }}")),
        3 => (register(), location()).prop_map(|(register, at)| format!("{register} = {at};")),
        2 => locked(),
        2 => plain(),
    ];
    let threads = vec(vec(statement, 1..=size.statements), 2..=size.threads.max(2));
    (select(vec![vec![1, 1], vec![2], vec![1, 2]]), threads).prop_map(|(lines, threads)| Program {
        lines,
        domains: Vec::new(),
        init: Vec::new(),
        threads,
        recover: None,
    })
}

/// How the threads of a [`guarded_program`] wait for each other. `w` is what they wait for; nothing else uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Each thread does the last part of its work under a lock. Here it gives up if the lock is taken: then it does no
    /// more, so what a crash leaves is the same as if it waited.
    Lock,
    /// The same, but the lock is given back by a plain store.
    SpinLock,
    /// There is more to do afterwards, whether or not the lock could be had.
    TriedLock,
    /// The first thread sets a flag, without which the others do not go on.
    Flag,
}

/// Programs of at least two threads that wait for each other.
pub fn guarded_program(size: Size, guard: Guard) -> impl Strategy<Value = Program> {
    let part = || vec(statement(), 0..=size.statements.div_ceil(2));
    let lines = select(vec![vec![1, 1, 1], vec![2, 1, 1], vec![1, 2, 1], vec![3, 1]]);
    let threads = vec((part(), part(), part()), 2..=size.threads);
    (lines, threads).prop_map(move |(lines, threads)| {
        let threads = threads.into_iter().enumerate().map(|(number, (before, within, after))| {
            let mut statements = before;
            let within = within.join(" ");
            match guard {
                Guard::Lock | Guard::SpinLock | Guard::TriedLock => {
                    let release = if guard == Guard::SpinLock { "w = 0;" } else { "xchg(w, 0);" };
                    statements.push(format!("r7 = cas(w, 0, 1); if (r7 == 0) {{ {within} {release} }}"));
                    statements.extend(after.into_iter().filter(|_| guard == Guard::TriedLock));
                }
                Guard::Flag if number == 0 => {
                    statements.push("w = 1;".into());
                    statements.extend(after);
                }
                Guard::Flag => statements.push(format!("r7 = w; if (r7 == 1) {{ {within} }}")),
            }
            statements
        });
        let (threads, domains) = (threads.collect(), Vec::new());
        Program { lines, domains, init: Vec::new(), threads, recover: None }
    })
}

/// Programs of at most `size` in which the first location is a counter: locked instructions add 1 to it, always or sometimes,
/// and nothing else writes it.
pub fn counting_program(size: Size) -> impl Strategy<Value = Program> {
    let counter = NAMES[0];
    let adds = move || {
        prop_oneof![
            3 => register().prop_map(move |register| format!("{register} = faa({counter}, 1);")),
            1 => (register(), register())
                .prop_map(move |(result, known)| format!("{result} = cas({counter}, {known}, {known} + 1);")),
        ]
    };
    let statement = prop_oneof![
        6 => adds(),
        2 => (register(), adds()).prop_map(|(test, then)| format!("if ({test} == 1) {{ {then} }}")),
        1 => register().prop_map(move |register| format!("{register} = {counter};")),
        2 => Just(format!("clwb {counter}; sfence;")),
        2 => register().prop_map(|register| format!("{} = {register} + 1;", NAMES[1])),
    ];
    let threads = vec(vec(statement, 1..=size.statements), 2..=size.threads.max(2));
    (select(vec![vec![1, 1], vec![2]]), threads).prop_map(|(lines, threads)| Program {
        lines,
        domains: Vec::new(),
        init: Vec::new(),
        threads,
        recover: None,
    })
}

fn location() -> impl Strategy<Value = &'static str> + Clone {
    // Few locations make programs that have something to say to each other.
    prop_oneof![4 => Just(NAMES[0]), 4 => Just(NAMES[1]), 2 => Just(NAMES[2])]
}

fn value() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        3 => (1..3i64).prop_map(|value| value.to_string()),
        1 => select(vec!["r0", "r1", "r0 + 1"]).prop_map(String::from),
    ]
}

fn register() -> impl Strategy<Value = &'static str> + Clone {
    select(vec!["r0", "r1"])
}

fn simple_statement() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        6 => (location(), value()).prop_map(|(at, value)| format!("{at} = {value};")),
        3 => (register(), location()).prop_map(|(register, at)| format!("{register} = {at};")),
        2 => location().prop_map(|at| format!("clflush {at};")),
        3 => location().prop_map(|at| format!("clwb {at};")),
        2 => Just("sfence;".to_owned()),
        1 => Just("mfence;".to_owned()),
        1 => (location(), value()).prop_map(|(at, value)| format!("movnt {at}, {value};")),
        1 => (register(), location(), 0..2i64, value())
            .prop_map(|(register, at, old, new)| format!("{register} = cas({at}, {old}, {new});")),
        1 => (register(), location()).prop_map(|(register, at)| format!("{register} = faa({at}, 1);")),
        1 => (location(), value()).prop_map(|(at, value)| format!("xchg({at}, {value});")),
        // The idiom whose presence or absence everything is about.
        2 => (location(), location(), 1..3i64)
            .prop_map(|(at, then, value)| format!("{at} = {value}; clwb {at}; sfence; {then} = {value};")),
    ]
}

fn statement() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => simple_statement(),
        1 => (register(), simple_statement(), simple_statement())
            .prop_map(|(register, then, otherwise)| format!("if ({register} == 1) {{ {then} }} else {{ {otherwise} }}")),
        1 => simple_statement().prop_map(|body| format!("repeat 2 {{ {body} }}")),
    ]
}

fn recovery_statement() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (register(), location()).prop_map(|(register, at)| format!("{register} = {at};")),
        1 => (register(), register(), location())
            .prop_map(|(test, register, at)| format!("if ({test} == 1) {{ {register} = {at}; }}")),
        1 => simple_statement(),
        2 => select(vec!["!(r0 == 1 && r1 == 0)", "r0 <= r1", "r0 != 2", "r1 != 1 || r0 == 1"])
            .prop_map(|condition| format!("assert {condition};")),
    ]
}
