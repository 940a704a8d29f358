//! Schedules are made from seeds: equal seeds give equal runs, different ones differ.

use std::path::{Path, PathBuf};

use crashproof_check::{Options, Strategy, record};

#[test]
fn the_same_seed_gives_the_same_run() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/threads");
    let directory: PathBuf = crashproof_toolchain::testing::scratch("threads");
    for name in ["pthreads.c", "spin.c", "queue.c", "cpp_threads.cpp"] {
        let program = directory.join(name);
        let flags: &[&str] = if name.ends_with("cpp") { &["-std=c++20"] } else { &[] };
        crashproof_toolchain::testing::compile(&programs.join(name), &program, flags);
        for strategy in [Strategy::Random, Strategy::Pct] {
            let mut options = Options::new(program.clone(), Vec::new());
            options.strategy = strategy;
            let mut distinct = std::collections::HashSet::new();
            for seed in 0..6 {
                let first = record(&options, seed).expect("a run");
                let second = record(&options, seed).expect("a run");
                assert_eq!(&first[..], &second[..], "{name}: seed {seed}, {strategy:?}");
                distinct
                    .insert(first.iter().map(|record| (record.thread(), record.kind())).collect::<Vec<_>>());
            }
            assert!(distinct.len() > 1, "{name}: seeds make no difference, {strategy:?}");
        }
    }
}
