//! Counterexamples are replayed through px86 before they are reported: stories that it does not allow are rejected.

use crashproof_prove::confirm::confirm;
use crashproof_prove::litmus;
use crashproof_prove::program::Program;
use crashproof_prove::prove::{self, Options, Verdict};
use crashproof_prove::story::Counterexample;
use px86::{Kind, Platform};

/// A program, and a counterexample for it that px86 has confirmed.
fn refuted(text: &str) -> (Program, Counterexample) {
    let test = crashproof_litmus::parse(text).expect("a litmus test");
    let program = litmus::program(&test);
    let report = prove::prove(&program, &Options::default()).expect("an answer");
    let Verdict::Violated(counterexample) = report.verdict else { panic!("{:?}", report.verdict) };
    (program, *counterexample)
}

fn objection(program: &Program, story: &Counterexample) -> String {
    confirm(program, &Platform::ADR, story).expect_err("px86 does not allow this").objection
}

const UNFLUSHED: &str = "litmus unflushed\nline { x }\nline { y }\nthread {\n  x = 1;\n  y = 1;\n  mfence;\n}\n\
                         recover {\n  a = x;\n  b = y;\n  assert (b == 0 || a == 1);\n}\n";

#[test]
fn memory_that_no_crash_leaves() {
    let (program, mut story) = refuted(UNFLUSHED);
    confirm(&program, &Platform::ADR, &story).expect("confirmed");
    story.memory[0].value = 2;
    assert!(objection(&program, &story).starts_with("a crash cannot leave x ="));
}

#[test]
fn with_surviving_caches_the_lost_store_cannot_be_lost() {
    let (program, mut story) = refuted(UNFLUSHED);
    // Everything took effect, and caches are persistent.
    for (at, issued) in story.issued.iter_mut().enumerate() {
        issued.effect = Some(at);
    }
    let disagreement = confirm(&program, &Platform::EADR, &story).expect_err("x cannot be lost");
    assert!(disagreement.objection.contains("x = 0"), "{disagreement}");
    assert!(disagreement.to_string().contains("prover:"), "{disagreement}");
}

#[test]
fn stores_that_take_effect_out_of_order() {
    let (program, mut story) = refuted(UNFLUSHED);
    let stores: Vec<usize> =
        (0..story.issued.len()).filter(|&at| story.issued[at].event.kind == Kind::Store).collect();
    let [x, y] = stores[..] else { panic!("two stores") };
    (story.issued[x].effect, story.issued[y].effect) = (Some(1), Some(0));
    let objection = objection(&program, &story);
    assert!(objection.contains("takes effect before"), "{objection}");
}

#[test]
fn a_load_that_reads_what_nobody_stored() {
    let text = "litmus reader\nline { x }\nline { y }\nthread {\n  x = 1;\n}\nthread {\n  r = x;\n  y = r;\n  mfence;\n}\n\
                recover {\n  a = x;\n  b = y;\n  assert (b == 0 || a == 1);\n}\n";
    let (program, mut story) = refuted(text);
    let load = story.issued.iter_mut().find(|issued| issued.event.kind == Kind::Load).expect("a load");
    load.read = Some(7);
    let objection = objection(&program, &story);
    assert!(objection.contains("cannot read 0x7"), "{objection}");
}
