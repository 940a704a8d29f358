//! Tries to prove a C program: `cargo run -p crashproof-symbolic --example attempt -- file.c [-D...]`.

use std::time::Instant;

use crashproof_orders::{Limits, Outcome};
use crashproof_prove::encode::{Encoder, Settings};
use crashproof_prove::values::Analysis;

fn main() {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let file = arguments.remove(0);
    let mut options = crashproof_symbolic::Options::default();
    if let Ok(unwind) = std::env::var("UNWIND") {
        options.unwind = unwind.parse().expect("a number");
    }
    let start = Instant::now();
    let program = match crashproof_symbolic::program(&[file.into()], arguments, &options) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let front = start.elapsed();
    let events: usize = program.threads.iter().chain(&program.recovery).map(|t| t.events.len()).sum();
    let analysis = Analysis::new(&program);
    let analysed = start.elapsed();
    let mut encoder = Encoder::new(&program, &analysis, Settings::default()).expect("a solver");
    let wrong: Vec<_> = encoder.violations.iter().map(|v| v.lit).collect();
    let far: Vec<_> = encoder.limits.iter().map(|v| v.lit).collect();
    let wrong = encoder.gates.any(&wrong);
    let far = encoder.gates.any(&far);
    encoder.finish();
    let encoded = start.elapsed();
    let nodes = encoder.events.len();
    let verdict = match encoder.gates.solver.solve(&[wrong], &Limits::default()) {
        Outcome::Satisfiable => {
            let which: Vec<String> = encoder
                .violations
                .iter()
                .filter(|v| encoder.gates.solver.value(v.lit))
                .map(|v| format!("{:?} line {}", v.what, program.sites[v.site.0 as usize].line))
                .collect();
            format!("refuted: {}", which.join(", "))
        }
        Outcome::Unsatisfiable => match encoder.gates.solver.solve(&[far], &Limits::default()) {
            Outcome::Satisfiable => {
                let which: Vec<String> = encoder
                    .limits
                    .iter()
                    .filter(|v| encoder.gates.solver.value(v.lit))
                    .map(|v| format!("{} line {}", v.reason, program.sites[v.site.0 as usize].line))
                    .collect();
                format!("unknown: {}", which.join(", "))
            }
            Outcome::Unsatisfiable => "holds".into(),
            Outcome::Unknown(_) => "gave up".into(),
        },
        Outcome::Unknown(_) => "gave up".into(),
    };
    println!(
        "{verdict}  [{events} events, {nodes} nodes, front {front:?}, analysis {:?}, encode {:?}, solve {:?}]",
        analysed - front,
        encoded - analysed,
        start.elapsed() - encoded
    );
}
