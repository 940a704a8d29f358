//! The command line, as people meet it: every `console` block of `cmd/*.md`, of the book and of the README is run
//! and must print what it says there. `make bless` writes down what it prints now.
//!
//! `cmd/NAME.in` is the directory that the commands of `cmd/NAME.md` run in; the others run in the
//! repository's own.

use std::path::Path;

#[test]
fn the_command_line_says_what_is_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The only test of its process: nobody else minds where it is.
    std::env::set_current_dir(&root).expect("the repository");
    let cases = trycmd::TestCases::new();
    cases
        .register_bin("crashproof", trycmd::cargo::cargo_bin!("crashproof"))
        // Help is wrapped to the terminal and colours depend on it; neither should depend on who runs the tests.
        .env("COLUMNS", "100")
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
        .case("docs/src/*.md")
        .case("README.md");
    cases.run();
    // What `prove --replay` built.
    for program in ["follow", "reads", "eadr"] {
        let built = Path::new("crates/crashproof/tests/cmd/prove.in").join(program);
        // A counterexample that cannot be replayed builds nothing.
        let _ = std::fs::remove_file(built);
    }
}
