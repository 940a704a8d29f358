//! Accesses of any size at any address: the number of states recovery can find is compared with counting them.
//!
//! Random programs store bytes, words and ranges, across words and lines, flush and fence; recovery loads in the same
//! way, stores, and may stop early. What it may find is computed here in the simplest possible way: at every instant,
//! every prefix of the uncertain stores to each line, in every combination. The checker reports the number of behaviors
//! it met; it chooses by value, lazily, and shares what crashes have in common, none of which may show in that number.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crashproof_check::{Options, check};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

const LINES: usize = 4;
/// More states than this are not counted.
const MOST_STATES: usize = 200_000;

#[derive(Clone, Debug)]
enum Step {
    Store(usize, usize, u64),
    Fill(usize, usize, u8),
    Copy(usize, usize, u8),
    Exchange(usize, u64),
    Flush(usize),
    WriteBack(usize),
    StoreFence,
    Fence,
}

#[derive(Clone, Debug)]
enum Look {
    Load(usize, usize),
    Copy(usize, usize),
    StopIf(usize, u8),
    Store(usize, usize, u64),
}

/// Addresses near the ends of words and lines, where bugs are likely.
fn place() -> impl Strategy<Value = usize> {
    prop_oneof![
        9 => prop::sample::select(vec![0, 1, 3, 7, 8, 58, 60, 62, 63, 64, 66, 124, 127, 128]),
        1 => 0..150usize,
    ]
}

fn width() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![1, 2, 4, 8])
}

/// Small values, which collide often: choices are made by value.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, any::<u64>()]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (place(), width(), value()).prop_map(|(at, bytes, value)| Step::Store(at, bytes, value)),
        1 => (place(), 1..40usize, any::<u8>()).prop_map(|(at, bytes, value)| Step::Fill(at, bytes, value)),
        1 => (place(), 1..40usize, any::<u8>()).prop_map(|(at, bytes, value)| Step::Copy(at, bytes, value)),
        1 => (0..18usize, value()).prop_map(|(word, value)| Step::Exchange(8 * word, value)),
        2 => (0..3usize).prop_map(Step::Flush),
        2 => (0..3usize).prop_map(Step::WriteBack),
        2 => Just(Step::StoreFence),
        1 => Just(Step::Fence),
    ]
}

fn look() -> impl Strategy<Value = Look> {
    prop_oneof![
        5 => (place(), width()).prop_map(|(at, bytes)| Look::Load(at, bytes)),
        2 => (place(), 1..40usize).prop_map(|(at, bytes)| Look::Copy(at, bytes)),
        1 => (place(), 0..3u8).prop_map(|(at, value)| Look::StopIf(at, value)),
        1 => (place(), width(), value()).prop_map(|(at, bytes, value)| Look::Store(at, bytes, value)),
    ]
}

impl Step {
    fn word(&self) -> String {
        match self {
            Step::Store(at, bytes, value) => format!("s{at},{bytes},{value}"),
            Step::Fill(at, bytes, value) => format!("f{at},{bytes},{value}"),
            Step::Copy(at, bytes, value) => format!("c{at},{bytes},{value}"),
            Step::Exchange(at, value) => format!("x{at},8,{value}"),
            Step::Flush(line) => format!("F{line}"),
            Step::WriteBack(line) => format!("W{line}"),
            Step::StoreFence => "S".into(),
            Step::Fence => "M".into(),
        }
    }

    /// What it stores, in pieces that persist as a whole.
    fn pieces(&self) -> Vec<(usize, Vec<u8>)> {
        let number = |value: u64, bytes: usize| value.to_le_bytes()[..bytes].to_vec();
        match *self {
            // One instruction is split at line boundaries, a range at word boundaries as well.
            Step::Store(at, bytes, value) => split(at, number(value, bytes), 64),
            Step::Exchange(at, value) => split(at, number(value, 8), 64),
            Step::Fill(at, bytes, value) => split(at, vec![value; bytes], 8),
            Step::Copy(at, bytes, value) => {
                split(at, (0..bytes).map(|index| value.wrapping_add(index as u8)).collect(), 8)
            }
            _ => Vec::new(),
        }
    }
}

fn split(mut at: usize, mut bytes: Vec<u8>, unit: usize) -> Vec<(usize, Vec<u8>)> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let rest = bytes.split_off(bytes.len().min(unit - at % unit));
        pieces.push((at, std::mem::replace(&mut bytes, rest)));
        at += pieces[pieces.len() - 1].1.len();
    }
    pieces
}

impl Look {
    fn word(&self) -> String {
        match self {
            Look::Load(at, bytes) => format!("l{at},{bytes}"),
            Look::Copy(at, bytes) => format!("c{at},{bytes}"),
            Look::StopIf(at, value) => format!("i{at},1,{value}"),
            Look::Store(at, bytes, value) => format!("s{at},{bytes},{value}"),
        }
    }
}

/// What recovery learns from memory: bytes that it reads without having read or written them before.
fn learnt(mut memory: Vec<u8>, looks: &[Look]) -> Vec<u8> {
    let mut known = BTreeSet::new();
    let mut learnt = Vec::new();
    for look in looks {
        match *look {
            Look::Load(at, bytes) | Look::Copy(at, bytes) => {
                learnt.extend((at..at + bytes).filter(|at| known.insert(*at)).map(|at| memory[at]));
            }
            Look::StopIf(at, value) => {
                learnt.extend(known.insert(at).then_some(memory[at]));
                if memory[at] == value {
                    break;
                }
            }
            Look::Store(at, bytes, value) => {
                memory[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
                known.extend(at..at + bytes);
            }
        }
    }
    learnt
}

/// Everything recovery may learn; `None` if there are too many states to count.
fn expected(steps: &[Step], looks: &[Look]) -> Option<usize> {
    let mut stores: [Vec<(usize, Vec<u8>)>; LINES] = Default::default();
    let mut certain = [0; LINES];
    let mut written_back = [0; LINES];
    // For each line, the number of certain stores and of all stores.
    let mut moments = BTreeSet::from([[(0, 0); LINES]]);
    let mut note = |certain: &[usize; LINES], stores: &[Vec<_>; LINES]| {
        moments.insert(std::array::from_fn(|line| (certain[line], stores[line].len())))
    };
    for step in steps {
        if matches!(step, Step::StoreFence | Step::Fence | Step::Exchange(..)) {
            certain = std::array::from_fn(|line| certain[line].max(written_back[line]));
        }
        for piece in step.pieces() {
            stores[piece.0 / 64].push(piece);
            note(&certain, &stores);
        }
        match *step {
            Step::Flush(line) => certain[line] = stores[line].len(),
            Step::WriteBack(line) => written_back[line] = stores[line].len(),
            _ => {}
        }
        note(&certain, &stores);
    }
    let count =
        |moment: &[(usize, usize); LINES]| moment.iter().map(|(from, to)| to - from + 1).product::<usize>();
    if moments.iter().map(count).sum::<usize>() > MOST_STATES {
        return None;
    }
    let mut all = BTreeSet::new();
    for moment in moments {
        let mut kept = moment.map(|(from, _)| from);
        loop {
            let mut memory = vec![0; 64 * LINES];
            for (line, &count) in kept.iter().enumerate() {
                for (at, bytes) in &stores[line][..count] {
                    memory[*at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            all.insert(learnt(memory, looks));
            // The next combination.
            let Some(line) = (0..LINES).find(|&line| kept[line] < moment[line].1) else { break };
            kept[line] += 1;
            (0..line).for_each(|before| kept[before] = moment[before].0);
        }
    }
    Some(all.len())
}

#[test]
fn as_many_behaviors_as_there_are() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bytes/interpreter.c");
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("interpreter");
    crashproof_toolchain::testing::compile(&source, &program, &["-Wall", "-Wextra", "-Werror"]);
    let programs = std::env::var("CRASHPROOF_PROGRAMS").map_or(150, |text| text.parse().expect("a number"));
    let mut runner = TestRunner::new(Config::default());
    let strategy = (prop::collection::vec(step(), 2..14), prop::collection::vec(look(), 2..9));
    let (mut compared, mut met) = (0, 0);
    while compared < programs {
        let (steps, looks) = strategy.new_tree(&mut runner).expect("a program").current();
        let Some(expected) = expected(&steps, &looks) else { continue };
        if steps.iter().all(|step| step.pieces().is_empty()) {
            continue;
        }
        let words = steps.iter().map(Step::word).chain(["--".into()]).chain(looks.iter().map(Look::word));
        let mut options = Options::new(program.clone(), words.map(OsString::from).collect());
        options.jobs = 1;
        let report = check(&options).unwrap_or_else(|error| panic!("{steps:?}: {error}"));
        assert!(report.unknown.is_empty(), "{steps:?}: {:?}", report.unknown);
        assert_eq!(report.statistics.behaviors, expected as u64, "{steps:?}, then {looks:?}");
        compared += 1;
        met += expected;
    }
    println!("tried | accesses of all sizes | {compared} | {met} behaviors, as by enumeration |");
}
