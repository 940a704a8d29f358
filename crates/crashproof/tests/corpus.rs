//! The litmus corpus: every file states its expected answers in `//!` lines, and every engine must give them.
//!
//! The amount of work of each engine is recorded in `litmus/explored.txt`, so that an engine that suddenly explores
//! more is noticed. `make bless` updates it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crashproof_litmus::Test;
use crashproof_litmus::answer::{Answer, Assertions, Options, Verdict};
use px86::Domain;

type Engine = fn(&Test, &Options) -> Answer;
const ENGINES: [Engine; 3] = [
    crashproof_litmus::exhaustive::run,
    crashproof_litmus::lazy::engine::run,
    crashproof_prove::axiomatic::run,
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../litmus")
}

fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path()) {
        if directory.is_dir() {
            files.extend(std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "litmus"));
    files.sort();
    files
}

/// The expectations in a file's `//!` lines.
#[derive(Debug, Default)]
struct Expected {
    count: Option<usize>,
    states: Vec<String>,
    robust: Option<String>,
    assertions: Option<String>,
    options: Options,
}

impl Expected {
    fn read(source: &str) -> Expected {
        let mut expected = Expected::default();
        for line in source.lines().filter_map(|line| line.strip_prefix("//!")) {
            let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            match word {
                "states" => expected.count = Some(rest.parse().expect("a number of states")),
                "state" => expected.states.push(rest.to_owned()),
                "robust" => expected.robust = Some(rest.to_owned()),
                "assertions" => expected.assertions = Some(rest.to_owned()),
                "crashes" => expected.options.crashes = rest.parse().expect("a number of crashes"),
                "eadr" => expected.options.domain = Domain::Eadr,
                other => panic!("`//! {other}` is not an expectation"),
            }
        }
        expected
    }
}

fn yes_no(verdict: &Verdict) -> &'static str {
    match verdict.known() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

/// All differences between `answer` and the expectations.
fn differences(test: &Test, expected: &Expected, answer: &Answer) -> Vec<String> {
    let order = test.locations_by_name();
    let states: Vec<String> = answer
        .states
        .iter()
        .map(|state| {
            let cell = |id: &crashproof_litmus::LocId| {
                format!("{}={}", test.location(*id).name, state[usize::from(id.0)])
            };
            order.iter().map(cell).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let robust = format!(
        "strict={} event={} state={}",
        yes_no(&answer.robust.strict),
        yes_no(&answer.robust.event),
        yes_no(&answer.robust.state)
    );
    let assertions = match &answer.assertions {
        Assertions::None => "none",
        Assertions::Hold => "hold",
        Assertions::Fail(_) => "fail",
        Assertions::Unknown => "unknown",
    };
    let mut differences = Vec::new();
    let mut compare = |what: &str, expected: String, found: String| {
        if expected != found {
            differences.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    compare("complete", "true".into(), answer.complete().to_string());
    compare("states", format!("{:?}", expected.count), format!("{:?}", Some(states.len())));
    if !expected.states.is_empty() {
        compare("states", expected.states.join("; "), states.join("; "));
    }
    compare("robust", format!("{:?}", expected.robust), format!("{:?}", Some(robust)));
    compare("assertions", format!("{:?}", expected.assertions), format!("{:?}", Some(assertions)));
    for (query, answer) in test.queries.iter().zip(&answer.queries) {
        compare(
            &query.text,
            "holds".into(),
            if answer.holds == Some(true) { "holds".into() } else { "does not".into() },
        );
    }
    differences
}

#[test]
fn every_engine_answers_as_every_file_expects() {
    let mut wrong = String::new();
    let mut explored = String::from(
        "# Work done on each litmus test. A change here means that an engine explores differently.\n\
         # Written by `make bless`.\n\
         # test: states of the exhaustive machine; states, failure points and recoveries of the lazy explorer\n",
    );
    let files = files();
    let mut names = BTreeMap::new();
    for file in &files {
        let source = std::fs::read_to_string(file).unwrap();
        let name = file.strip_prefix(corpus()).unwrap().display().to_string();
        let test = crashproof_litmus::parse(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            Some(test.name.as_str()),
            file.file_stem().unwrap().to_str(),
            "{name} has another test's name"
        );
        assert!(names.insert(test.name.clone(), ()).is_none(), "two tests are called {}", test.name);
        let expected = Expected::read(&source);
        let answers = ENGINES.map(|engine| engine(&test, &expected.options));
        for answer in &answers {
            for difference in differences(&test, &expected, answer) {
                let _ = writeln!(wrong, "{name}, {}: {difference}", answer.engine);
            }
        }
        let [exhaustive, lazy, _] = answers.map(|answer| answer.statistics);
        let _ = writeln!(
            explored,
            "{name}: {}; {} {} {}",
            exhaustive.explored, lazy.explored, lazy.failure_points, lazy.recoveries
        );
    }
    println!("{} litmus tests, each on {} engines", files.len(), ENGINES.len());
    assert!(wrong.is_empty(), "\n{wrong}");
    snapbox::assert_data_eq!(explored, snapbox::Data::read_from(&corpus().join("explored.txt"), None).raw());
}
