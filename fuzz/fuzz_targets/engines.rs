//! Small programs made from bytes: the engines agree on them whenever both are complete, none panics, and
//! every answer can be shown.
//!
//! The programs are made here and not taken from the property tests, so that the two do not share blind spots:
//! these nest branches and loops, compute, ask questions and crash up to three times.

#![no_main]

use std::fmt::Write as _;

use arbitrary::{Result, Unstructured};
use crashproof_litmus::answer::{Answer, Assertions, Limits, Options};
use libfuzzer_sys::fuzz_target;
use px86::Domain;

// The command line's own formats; it is no library.
#[allow(dead_code)]
#[path = "../../crates/crashproof/src/litmus/json.rs"]
mod json;
#[allow(dead_code)]
#[path = "../../crates/crashproof/src/litmus/text.rs"]
mod text;

const LAYOUTS: [&str; 6] = [
    "line { x, y }\nline { z, w }",
    "line { x }\nline { y }\nline { z, w }",
    "line { x, y, z, w }",
    "line { x, z }\nline { y, w }",
    "line { x }\nline { y }\nline { z }\nline { w }",
    "line { w, y, x }\nline { z }",
];
const LOCATIONS: [&str; 4] = ["x", "y", "z", "w"];
const REGISTERS: [&str; 3] = ["r0", "r1", "r2"];
const BINARY: [&str; 16] =
    ["+", "-", "*", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||"];

struct Source<'a, 'b> {
    bytes: &'a mut Unstructured<'b>,
    text: String,
    /// Statements that may still be written; keeps the state spaces small.
    statements: usize,
}

impl Source<'_, '_> {
    fn operand(&mut self, names: &[&str]) -> Result<String> {
        Ok(match self.bytes.int_in_range(0..=9)? {
            0..=3 => self.bytes.int_in_range(0..=3)?.to_string(),
            4 => self.bytes.choose(&["-1", "63", "64", "9223372036854775807"])?.to_string(),
            _ => self.bytes.choose(names)?.to_string(),
        })
    }

    fn expression(&mut self, names: &[&str], depth: usize) -> Result<String> {
        if depth == 0 || self.bytes.ratio(2, 3)? {
            return self.operand(names);
        }
        if self.bytes.ratio(1, 5)? {
            let sign = self.bytes.choose(&["!", "-"])?;
            return Ok(format!("{sign}({})", self.expression(names, depth - 1)?));
        }
        let left = self.expression(names, depth - 1)?;
        let operator = self.bytes.choose(&BINARY)?;
        Ok(format!("({left} {operator} {})", self.expression(names, depth - 1)?))
    }

    fn statement(&mut self, recovery: bool, depth: usize) -> Result<()> {
        if self.statements == 0 || self.bytes.is_empty() {
            return Ok(());
        }
        self.statements -= 1;
        let at = *self.bytes.choose(&LOCATIONS)?;
        let register = *self.bytes.choose(&REGISTERS)?;
        let statement = match self.bytes.int_in_range(0..=19)? {
            0..=4 => format!("{at} = {};", self.expression(&REGISTERS, 2)?),
            5..=7 => format!("{register} = {at};"),
            8 => format!("{register} = {};", self.expression(&REGISTERS, 2)?),
            9 => format!("movnt {at}, {};", self.expression(&REGISTERS, 1)?),
            10 => format!("clflush {at};"),
            11 => format!("clflushopt {at};"),
            12 => format!("clwb {at};"),
            13 => "sfence;".to_owned(),
            14 => "mfence;".to_owned(),
            15 => format!(
                "{register} = cas({at}, {}, {});",
                self.operand(&REGISTERS)?,
                self.operand(&REGISTERS)?
            ),
            16 => format!("{register} = faa({at}, {});", self.operand(&REGISTERS)?),
            17 => format!("xchg({at}, {});", self.operand(&REGISTERS)?),
            18 if depth > 0 => {
                let condition = self.expression(&REGISTERS, 2)?;
                let _ = write!(self.text, "  if ({condition}) {{");
                self.block(recovery, depth - 1, 2)?;
                self.text.push_str(" } else {");
                self.block(recovery, depth - 1, 2)?;
                " }".to_owned()
            }
            _ if depth > 0 && self.bytes.ratio(1, 3)? => {
                let _ = write!(self.text, "  repeat {} {{", self.bytes.int_in_range(0..=2)?);
                self.block(recovery, depth - 1, 2)?;
                " }".to_owned()
            }
            _ if recovery => format!("assert {};", self.expression(&REGISTERS, 2)?),
            _ => format!("clwb {at}; sfence;"),
        };
        let _ = writeln!(self.text, "  {statement}");
        Ok(())
    }

    fn block(&mut self, recovery: bool, depth: usize, most: usize) -> Result<()> {
        for _ in 0..self.bytes.int_in_range(0..=most)? {
            self.statement(recovery, depth)?;
        }
        Ok(())
    }

    fn program(&mut self) -> Result<()> {
        let _ = writeln!(self.text, "litmus fuzz\n{}", self.bytes.choose(&LAYOUTS)?);
        if self.bytes.ratio(1, 4)? {
            let at = self.bytes.choose(&LOCATIONS)?;
            let _ = writeln!(self.text, "init {{ {at} = {} }}", self.bytes.int_in_range(-1..=2)?);
        }
        for _ in 0..self.bytes.int_in_range(1..=3)? {
            self.text.push_str("thread {\n");
            self.block(false, 2, 6)?;
            self.text.push_str("}\n");
        }
        if self.bytes.ratio(1, 2)? {
            self.statements = 6;
            self.text.push_str("recover {\n");
            self.block(true, 2, 6)?;
            self.text.push_str("}\n");
        }
        for _ in 0..self.bytes.int_in_range(0..=2)? {
            let kind = self.bytes.choose(&["forbidden", "allowed"])?;
            let condition = self.expression(&LOCATIONS, 3)?;
            let _ = writeln!(self.text, "{kind} ({condition})");
        }
        Ok(())
    }
}

fn options(bytes: &mut Unstructured) -> Result<Options> {
    Ok(Options {
        crashes: *bytes.choose(&[1, 1, 1, 2, 2, 3])?,
        domain: if bytes.ratio(1, 6)? { Domain::Eadr } else { Domain::Adr },
        limits: Limits { states: 20_000, outcomes: 2_000, bytes: 64 << 20, interrupt: None },
    })
}

/// What complete answers must have in common.
fn essence(answer: &Answer) -> impl PartialEq + std::fmt::Debug {
    let robust =
        [&answer.robust.strict, &answer.robust.event, &answer.robust.state].map(|verdict| verdict.known());
    let queries: Vec<Option<bool>> = answer.queries.iter().map(|query| query.holds).collect();
    let fails = matches!(answer.assertions, Assertions::Fail(_));
    (answer.states.clone(), robust, queries, fails)
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let Ok(options) = options(&mut bytes) else { return };
    let mut source = Source { bytes: &mut bytes, text: String::new(), statements: 9 };
    if source.program().is_err() {
        return;
    }
    let source = source.text;
    let test = crashproof_litmus::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let answers = [crashproof_litmus::exhaustive::run, crashproof_litmus::lazy::engine::run]
        .map(|run| run(&test, &options));
    for answer in &answers {
        text::test("fuzz.litmus", &test, answer, text::Detail::Verbose);
        json::object("fuzz.litmus", &test, answer);
    }
    let [exhaustive, lazy] = &answers;
    if exhaustive.complete() && lazy.complete() {
        assert_eq!(essence(exhaustive), essence(lazy), "\nwith {options:?}\n{source}");
    }
});
