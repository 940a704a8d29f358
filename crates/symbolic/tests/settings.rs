//! With every combination of settings, the prover gives the answers that the programs of `tests/programs` expect.
//!
//! `tests/programs` itself uses the defaults of the command line. This covers the other crash encodings, asking claims
//! one by one, and parallel solvers. Programs with variants are left out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashproof_prove::encode::{CrashEncoding, Settings};
use crashproof_prove::prove::{self, Verdict};
use crashproof_symbolic::{Flushes, Options, Pool};

/// The expectation of a program.
struct Question {
    verdict: String,
    robust: bool,
    compiler: Vec<OsString>,
    options: Options,
}

/// Reads the `//@` lines; `None` if the prover has no verdict on the program, or one that depends on the variant.
fn question(text: &str, include: &Path) -> Option<Question> {
    let mut question = Question {
        verdict: String::new(),
        robust: false,
        compiler: vec!["-D_GNU_SOURCE".into(), "-I".into(), include.into()],
        options: Options::default(),
    };
    for line in text.lines().filter_map(|line| line.strip_prefix("//@ ")) {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        let words = value.split_whitespace().map(str::to_owned);
        match key {
            "prove" | "robust" => {
                question.verdict = words.take(1).collect();
                question.robust = key == "robust";
                if value.contains("known wrong") {
                    return None;
                }
            }
            "cflags" => question.compiler.extend(words.map(OsString::from)),
            "args" => {
                question.options.arguments = words.map(|word| word.replace("{dir}", "/mnt/pmem")).collect()
            }
            "stdin" => question.options.stdin = Some(value.replace("\\n", "\n").into_bytes()),
            "flags prove" | "flags robust" => set(&mut question.options, &words.collect::<Vec<_>>())?,
            _ if key.starts_with("variant ") => return None,
            _ => {}
        }
    }
    ["proved", "refuted", "unknown"].contains(&question.verdict.as_str()).then_some(question)
}

fn set(options: &mut Options, words: &[String]) -> Option<()> {
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--unwind" => options.unwind = words.next()?.parse().ok()?,
            "--recursion" => options.recursion = words.next()?.parse().ok()?,
            "--flush-every-access" => options.flushes = Flushes::EveryAccess,
            "--no-flushes" => options.flushes = Flushes::None,
            "--pool" => options.pool = (words.next()? == "created").then_some(Pool::Created)?,
            _ => return None,
        }
    }
    Some(())
}

fn sources(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("programs") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "c") {
            all.push(path);
        }
    }
}

#[test]
fn every_setting_gives_the_same_answer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    let at_once = prove::Options::default();
    let partial = Settings { crash: CrashEncoding::Partial, ..Settings::default() };
    let settings = [
        ("full", at_once),
        ("partial", prove::Options { settings: partial, ..at_once }),
        // Without a budget for all claims at once, they are asked one by one, in parallel.
        ("one by one", prove::Options { look: 0, ..at_once }),
        ("by three", prove::Options { look: 0, helpers: 2, ..at_once }),
    ];
    let (mut wrong, mut answers) = (Vec::new(), 0);
    for file in &files {
        let text = std::fs::read_to_string(file).expect("readable");
        let Some(question) = question(&text, &root.join("include")) else { continue };
        let program =
            crashproof_symbolic::program(std::slice::from_ref(file), question.compiler, &question.options);
        let Ok(program) = program else { continue };
        for (name, options) in settings {
            // Some programs are large; the smaller ones cover the settings.
            let limits = options.limits.with_timeout(Duration::from_secs(5));
            let options = &prove::Options { limits, ..options };
            let report = match question.robust {
                true => crashproof_prove::robust::prove(&program, options),
                false => prove::prove(&program, options),
            };
            let verdict = match report.map(|report| report.verdict) {
                Ok(Verdict::Holds) => "proved",
                Ok(Verdict::Violated(_)) => "refuted",
                // The command line retries with larger bounds before it reports this.
                Ok(Verdict::Unknown(_)) => continue,
                Err(error) => panic!("{}: {error}", file.display()),
            };
            answers += 1;
            if verdict != question.verdict {
                wrong.push(format!("{} ({name}): {verdict}, not {}", file.display(), question.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(answers > 300, "only {answers} answers");
}
