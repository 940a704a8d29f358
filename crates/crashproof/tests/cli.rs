//! The command line as users see it: every `console` block of `cmd/*.md`, of the book and of the README is run, and
//! must print what is written there. `make bless` updates the expected output.
//!
//! `cmd/NAME.in` is the working directory for the commands of `cmd/NAME.md`; others run in the repository.
//!
//! README and book show what a reader will see, without the test's markers: the exit codes of a block's commands are in
//! a comment above it (`<!-- exit 1 0 -->`), and ids of failures, which depend on the compiler, are not compared.

use std::path::{Path, PathBuf};

#[test]
fn the_command_line_says_what_is_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The other test of this process does not depend on the directory.
    std::env::set_current_dir(&root).expect("the repository");
    let cases = trycmd::TestCases::new();
    cases
        .register_bin("crashproof", trycmd::cargo::cargo_bin!("crashproof"))
        // Help is wrapped to the terminal's width, and colors depend on it; the test fixes both.
        .env("COLUMNS", "80")
        .env("NO_COLOR", "1")
        .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin().to_str().expect("a path in UTF-8"))
        .env(
            "CRASHPROOF_RUNTIME",
            crashproof_toolchain::testing::runtime().to_str().expect("a path in UTF-8"),
        )
        .env(
            "CRASHPROOF_INCLUDE",
            crashproof_toolchain::testing::include().to_str().expect("a path in UTF-8"),
        )
        .case("crates/crashproof/tests/cmd/*.md")
        .case("crates/crashproof/tests/cmd/*.toml")
        .case("target/tmp/shown/*.md");
    let shown = shown_to_readers();
    let copies = Path::new("target/tmp/shown");
    let _ = std::fs::remove_dir_all(copies);
    std::fs::create_dir_all(copies).expect("a directory");
    for (original, copy) in &shown {
        let text = std::fs::read_to_string(original).expect("a page");
        std::fs::write(copy, with_marks(&text)).expect("written");
    }
    cases.run();
    drop(cases);
    if std::env::var_os("TRYCMD").is_some_and(|how| how == "overwrite") {
        for (original, copy) in &shown {
            let before = std::fs::read_to_string(original).expect("a page");
            let text = without_marks(&std::fs::read_to_string(copy).expect("a page"), &before);
            if text != before {
                std::fs::write(original, text).expect("written");
            }
        }
    }
    // Programs built by `prove --replay`.
    for program in ["follow", "reads", "eadr"] {
        let built = Path::new("crates/crashproof/tests/cmd/prove.in").join(program);
        // A counterexample that cannot be replayed builds none.
        let _ = std::fs::remove_file(built);
    }
}

/// README and the pages of the book, each with the copy that is run.
fn shown_to_readers() -> Vec<(PathBuf, PathBuf)> {
    let pages = std::fs::read_dir("docs/src").expect("the book").map(|page| page.expect("a page").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|it| it == "md"));
    let all = pages.chain([PathBuf::from("README.md")]);
    all.map(|page| {
        let copy = Path::new("target/tmp/shown").join(page.file_name().expect("a name"));
        (page, copy)
    })
    .collect()
}

const EXITS: &str = "<!-- exit ";
const REPLAY: &str = "crashproof replay ";

/// An eight-digit id after the command that takes it.
fn id_at(line: &str) -> Option<std::ops::Range<usize>> {
    let start = line.find(REPLAY)? + REPLAY.len();
    let id = line.get(start..start + 8)?;
    id.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(start..start + 8)
}

/// A page with exit codes in the test's format, and without machine-dependent parts.
fn with_marks(text: &str) -> String {
    let mut exits: Vec<String> = Vec::new();
    let (mut inside, mut command) = (false, 0);
    let mut marked = String::new();
    for line in text.lines() {
        if let Some(codes) = line.strip_prefix(EXITS) {
            exits = codes.trim_end_matches(" -->").split(' ').map(str::to_owned).collect();
        } else if line.starts_with("```") {
            inside = !inside && line == "```console";
            command = 0;
        }
        match id_at(line).filter(|_| inside) {
            Some(id) => marked += &format!("{}[..]{}", &line[..id.start], &line[id.end..]),
            None => marked += line,
        }
        marked.push('\n');
        if inside && line.starts_with("$ ") {
            if let Some(code) = exits.get(command).filter(|code| *code != "0") {
                marked += &format!("? {code}\n");
            }
            command += 1;
        }
        if !inside && line == "```" {
            exits.clear();
        }
    }
    marked
}

/// The original page: exit codes in comments, ids unchanged.
fn without_marks(text: &str, before: &str) -> String {
    let mut ids = before.lines().filter_map(|line| id_at(line).map(|id| line[id].to_owned()));
    let mut page: Vec<String> = Vec::new();
    let mut open: Option<(usize, Vec<String>)> = None;
    for line in text.lines() {
        if line.starts_with(EXITS) {
            continue;
        }
        if line == "```console" {
            open = Some((page.len(), Vec::new()));
        } else if line == "```"
            && let Some((at, exits)) = open.take()
            && exits.iter().any(|code| code != "0")
        {
            page.push(line.to_owned());
            page.insert(at, format!("{EXITS}{} -->", exits.join(" ")));
            continue;
        }
        if let Some((_, exits)) = &mut open {
            if let Some(code) = line.strip_prefix("? ") {
                *exits.last_mut().expect("a command") = code.to_owned();
                continue;
            }
            if line.starts_with("$ ") {
                exits.push("0".into());
            }
        }
        let elided = format!("{REPLAY}[..]");
        let id = if line.contains(&elided) { ids.next() } else { None };
        page.push(id.map_or_else(|| line.to_owned(), |id| line.replace(&elided, &format!("{REPLAY}{id}"))));
    }
    page.join("\n") + "\n"
}

#[test]
fn marks_come_and_go() {
    let page = "text\n<!-- exit 1 0 -->\n```console\n$ crashproof check a.c\n   replay   crashproof replay 0123abcd\n\n\
                $ crashproof check b.c\nclean\n\n```\nmore\n```c\nint x;\n```\n";
    let marked = with_marks(page);
    assert!(marked.contains("a.c\n? 1\n   replay   crashproof replay [..]\n"), "{marked}");
    assert!(marked.contains("b.c\nclean"), "{marked}");
    assert_eq!(without_marks(&marked, page), page);
}
