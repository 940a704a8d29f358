//! Litmus answers as JSON, one object per line and test.

use std::collections::BTreeMap;

use crashproof_litmus::Test;
use crashproof_litmus::answer::{
    Answer, Assertions, Chapter, Effect, InstructionRef, Statistics, Step, Story, Verdict, Witness,
};
use serde::Serialize;

#[derive(Serialize)]
struct Object<'a> {
    name: &'a str,
    file: &'a str,
    engine: &'a str,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    states: Vec<State<'a>>,
    robust: Robust,
    assertions: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure<'a>>,
    queries: Vec<Query<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    witnesses: BTreeMap<&'static str, WitnessObject<'a>>,
    statistics: StatisticsObject<'a>,
}

type State<'a> = BTreeMap<&'a str, i64>;

#[derive(Serialize)]
struct Robust {
    strict: Option<bool>,
    event: Option<bool>,
    state: Option<bool>,
}

#[derive(Serialize)]
struct Failure<'a> {
    outcome: State<'a>,
    assertion: Place<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<StoryObject<'a>>,
}

#[derive(Serialize)]
struct Query<'a> {
    kind: &'static str,
    text: &'a str,
    holds: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<State<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    story: Option<StoryObject<'a>>,
}

#[derive(Serialize)]
struct WitnessObject<'a> {
    outcome: State<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Place<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    survived: Option<Place<'a>>,
}

/// An instruction and its place.
#[derive(Serialize)]
struct Place<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<usize>,
    line: usize,
    text: &'a str,
}

#[derive(Serialize)]
struct StoryObject<'a> {
    executions: Vec<ExecutionObject<'a>>,
    recovery: Vec<StepObject<'a>>,
}

#[derive(Serialize)]
struct ExecutionObject<'a> {
    recovery: bool,
    steps: Vec<StepObject<'a>>,
    /// For each line, the number of steps before its last write-back.
    written_back: &'a [usize],
    /// What is known about the outcome.
    outcome: State<'a>,
}

#[derive(Serialize)]
struct StepObject<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    effect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<i64>,
}

#[derive(Serialize)]
struct StatisticsObject<'a> {
    explored: u64,
    #[serde(skip_serializing_if = "is_zero")]
    failure_points: u64,
    #[serde(skip_serializing_if = "is_zero")]
    recoveries: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    eager_states: Option<&'a str>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The answer as one line of JSON, without the newline.
pub(crate) fn object(file: &str, test: &Test, answer: &Answer) -> String {
    let view = View { test };
    let Statistics { explored, failure_points, recoveries, eager_states } = &answer.statistics;
    let object = Object {
        name: &test.name,
        file,
        engine: answer.engine,
        complete: answer.complete(),
        reason: (!answer.complete()).then(|| answer.incomplete.join("; ")),
        states: answer.states.iter().map(|state| view.state(state)).collect(),
        robust: Robust {
            strict: answer.robust.strict.known(),
            event: answer.robust.event.known(),
            state: answer.robust.state.known(),
        },
        assertions: assertions_word(&answer.assertions),
        failure: match &answer.assertions {
            Assertions::Fail(failure) => Some(Failure {
                outcome: view.state(&failure.outcome),
                assertion: view.recovery_place(failure.instruction),
                story: failure.story.as_ref().map(|story| view.story(story)),
            }),
            _ => None,
        },
        queries: test
            .queries
            .iter()
            .zip(&answer.queries)
            .map(|(query, answer)| Query {
                kind: query.kind.name(),
                text: &query.text,
                holds: answer.holds,
                outcome: answer.outcome.as_ref().map(|outcome| view.state(outcome)),
                story: answer.story.as_ref().map(|story| view.story(story)),
            })
            .collect(),
        witnesses: [
            ("strict", &answer.robust.strict),
            ("event", &answer.robust.event),
            ("state", &answer.robust.state),
        ]
        .into_iter()
        .filter_map(|(sense, verdict)| match verdict {
            Verdict::No(witness) => Some((sense, view.witness(witness))),
            _ => None,
        })
        .collect(),
        statistics: StatisticsObject {
            explored: *explored,
            failure_points: *failure_points,
            recoveries: *recoveries,
            eager_states: eager_states.as_deref(),
        },
    };
    serde_json::to_string(&object).expect("plain data always serializes")
}

/// The word for the result of the assertions in JSON and text.
pub(crate) fn assertions_word(assertions: &Assertions) -> &'static str {
    match assertions {
        Assertions::None => "none",
        Assertions::Hold => "hold",
        Assertions::Fail(_) => "fail",
        Assertions::Unknown => "unknown",
    }
}

struct View<'a> {
    test: &'a Test,
}

impl<'a> View<'a> {
    fn state(&self, values: &[i64]) -> State<'a> {
        self.test
            .locations
            .iter()
            .map(|location| location.name.as_str())
            .zip(values.iter().copied())
            .collect()
    }

    fn thread_place(&self, at: InstructionRef) -> Place<'a> {
        let instruction = &self.test.threads[at.thread].instructions[at.index];
        let line = self.test.line_number(instruction.span);
        Place { thread: Some(at.thread), line, text: self.test.text(instruction) }
    }

    fn recovery_place(&self, index: usize) -> Place<'a> {
        let recover = self.test.recover.as_ref().expect("recovery ran");
        let instruction = &recover.instructions[index];
        let line = self.test.line_number(instruction.span);
        Place { thread: None, line, text: self.test.text(instruction) }
    }

    fn witness(&self, witness: &Witness) -> WitnessObject<'a> {
        WitnessObject {
            outcome: self.state(&witness.outcome),
            lost: witness.pair.map(|pair| self.thread_place(pair.lost)),
            survived: witness.pair.map(|pair| self.thread_place(pair.survived)),
        }
    }

    fn story<'s>(&self, story: &'s Story) -> StoryObject<'s>
    where
        'a: 's,
    {
        StoryObject {
            executions: story.chapters.iter().map(|chapter| self.chapter(chapter)).collect(),
            recovery: story.recovery.iter().map(|step| self.step(step, true)).collect(),
        }
    }

    fn chapter<'s>(&self, chapter: &'s Chapter) -> ExecutionObject<'s>
    where
        'a: 's,
    {
        ExecutionObject {
            recovery: chapter.recovery,
            steps: chapter.steps.iter().map(|step| self.step(step, chapter.recovery)).collect(),
            written_back: &chapter.written_back,
            outcome: self
                .test
                .locations
                .iter()
                .zip(&chapter.outcome)
                .filter_map(|(location, value)| Some((location.name.as_str(), (*value)?)))
                .collect(),
        }
    }

    fn step(&self, step: &Step, recovery: bool) -> StepObject<'a> {
        let place = if recovery {
            self.recovery_place(step.instruction.index)
        } else {
            self.thread_place(step.instruction)
        };
        let (effect, value) = match step.effect {
            Effect::Read(value) => ("read", Some(value)),
            Effect::Forwarded(value) => ("forwarded", Some(value)),
            Effect::Cached(value) => ("cached", Some(value)),
            Effect::Flushed => ("flushed", None),
            Effect::Fenced => ("fenced", None),
            Effect::Exchanged(_, Some(new)) => ("exchanged", Some(new)),
            Effect::Exchanged(old, None) => ("compared", Some(old)),
            Effect::Failed => ("failed", None),
        };
        StepObject { place, effect, value }
    }
}
