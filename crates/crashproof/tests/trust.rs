//! Attacks: data (tokens, compilation databases, settings of parent directories, debug information) runs no command,
//! loads no code and writes no other files unless the user permits it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Outcome {
    code: i32,
    text: String,
}

impl Outcome {
    #[track_caller]
    fn is(&self, code: i32, part: &str) {
        assert_eq!(self.code, code, "{}", self.text);
        assert!(self.text.contains(part), "no {part:?} in:\n{}", self.text);
    }
}

/// A user with a home directory and a project.
struct User(tempfile::TempDir);

impl User {
    fn new() -> User {
        let user = User(tempfile::tempdir().expect("a directory"));
        fs::create_dir_all(user.path("project/deep")).expect("directories");
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).expect("a file");
        self.path(name)
    }

    fn run(&self, directory: &str, arguments: &[&str]) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_crashproof"))
            .args(arguments)
            .current_dir(self.path(directory))
            .env("CRASHPROOF_PLUGIN", crashproof_toolchain::testing::plugin())
            .env("CRASHPROOF_RUNTIME", crashproof_toolchain::testing::runtime())
            .env("CRASHPROOF_INCLUDE", crashproof_toolchain::testing::include())
            .env("HOME", self.0.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .expect("crashproof runs");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Outcome { code: output.status.code().expect("it ends on its own"), text: text.concat() }
    }
}

const LOST: &str = "\
#include <crashproof.h>
struct pair { _Alignas(64) long data; _Alignas(64) long flag; };
int main(void) {
  struct pair *pair = crashproof_root(sizeof *pair);
  if (crashproof_crashes()) {
    crashproof_assert(!pair->flag || pair->data == 1);
    return 0;
  }
  pair->data = 1;
  pair->flag = 1;
  crashproof_persist(&pair->flag, sizeof pair->flag);
  return 0;
}
";

fn encoded(json: &serde_json::Value) -> String {
    data_encoding::BASE64URL_NOPAD.encode(&serde_json::to_vec(json).expect("JSON"))
}

fn decoded(token: &str) -> serde_json::Value {
    let bytes = data_encoding::BASE64URL_NOPAD.decode(token.as_bytes()).expect("a token");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn token_of(user: &User) -> String {
    let outcome = user.run("project", &["check", "--format", "json", "lost.c"]);
    assert_eq!(outcome.code, 1, "{}", outcome.text);
    let json: serde_json::Value = serde_json::from_str(&outcome.text).expect("JSON");
    json["findings"][0]["replay"].as_str().expect("a token").to_owned()
}

#[test]
fn a_token_of_somebody_else_runs_nothing() {
    let user = User::new();
    let proof = user.path("pwned");
    let script = format!("touch {}", proof.display());
    let token = encoded(&serde_json::json!({
        "v": 1, "program": "/bin/sh", "arguments": ["-c", script], "crashes": [],
    }));
    let outcome = user.run("project", &["replay", &token]);
    outcome.is(2, "it would run");
    outcome.is(2, "/bin/sh -c");
    outcome.is(2, "--trust");
    assert!(!proof.exists());
    let recovers = encoded(&serde_json::json!({
        "v": 1, "program": "true", "arguments": [], "recover": ["/bin/sh", "-c", script], "crashes": [],
    }));
    user.run("project", &["replay", &recovers]).is(2, "/bin/sh -c");
    assert!(!proof.exists());
}

#[test]
fn the_users_own_tokens_run_as_they_are() {
    let user = User::new();
    user.write("project/lost.c", LOST);
    let token = token_of(&user);
    user.run("project", &["replay", &token]).is(1, "fails an assertion");
    // The same token, from another user.
    let other = User::new();
    other.write("project/lost.c", LOST);
    other.run("project", &["replay", &token]).is(2, "none of your own checks");
    other.run("project", &["replay", "--trust", &token]).is(1, "fails an assertion");
    other.run("project", &["trust", "."]).is(0, "");
    other.run("project", &["replay", &token]).is(1, "fails an assertion");
    other.run("project", &["trust", "--remove", "."]).is(0, "");
    other.run("project", &["replay", &token]).is(2, "none of your own checks");
}

#[test]
fn tokens_that_do_not_fit_are_refused() {
    let user = User::new();
    user.write("project/lost.c", LOST);
    let token = token_of(&user);
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = decoded(&token);
        change(&mut json);
        user.run("project", &["replay", "--trust", &encoded(&json)])
    };
    changed(&|json| json["v"] = 99.into()).is(2, "format 99");
    changed(&|json| json["crashes"][0]["kept"] = serde_json::json!([[17, 3]])).is(2, "does not fit");
    changed(&|json| {
        let line = json["crashes"][0]["kept"][0][0].clone();
        json["crashes"][0]["kept"] = serde_json::json!([[line, 4_000_000]]);
    })
    .is(2, "does not fit");
    changed(&|json| json["crashes"][0]["at"] = 1_000_000.into()).is(2, "does not fit");
    changed(&|json| json["strategy"] = 4_000_000_000_u32.into()).is(2, "not a replay token");
    user.run("project", &["replay", &token[..token.len() / 2]]).is(2, "not a replay token");
}

#[test]
fn settings_of_a_parent_directory_run_nothing() {
    let user = User::new();
    let proof = user.path("pwned");
    user.write("project/deep/lost.c", LOST);
    let script = user.write("evil", &format!("#!/bin/sh\ntouch {}\n", proof.display()));
    user.write("project/crashproof.toml", &format!("[check]\nrecover = \"sh {}\"\n", script.display()));
    let outcome = user.run("project/deep", &["check", "lost.c"]);
    outcome.is(2, "in a parent directory, would run");
    assert!(!proof.exists());
    // Settings without commands apply, and a user who specifies the recovery command is not stopped.
    user.run("project/deep", &["check", "--recover", "lost.c", "lost.c"]).is(1, "recovery");
    user.write("project/crashproof.toml", "[check]\ncrashes = 1\n");
    user.run("project/deep", &["check", "lost.c"]).is(1, "recovery");
    assert!(!proof.exists());
}

#[test]
fn a_compilation_database_loads_no_code() {
    let user = User::new();
    let source = user.write("project/lost.c", LOST);
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let include = format!("-I{}", header.display());
    let plugin = user.path("evil.so");
    for more in [
        vec![format!("-fplugin={}", plugin.display())],
        vec![format!("-fpass-plugin={}", plugin.display())],
        vec!["-Xclang".into(), "-load".into(), "-Xclang".into(), plugin.display().to_string()],
        vec!["-mllvm".into(), format!("-load={}", plugin.display())],
    ] {
        let mut arguments = vec!["cc".to_owned(), include.clone(), "-c".into(), source.display().to_string()];
        arguments.extend(more);
        let database = serde_json::json!([
            {"directory": user.path("project"), "file": "lost.c", "arguments": arguments},
        ]);
        let file = user.write("project/compile_commands.json", &database.to_string());
        let outcome = user.run("project", &["lint", &file.to_string_lossy()]);
        outcome.is(1, "left out (--trust keeps them)");
        // With trust, clang tries to load it, and it does not exist.
        let trusted = user.run("project", &["lint", "--trust", &file.to_string_lossy()]);
        assert!(trusted.text.contains("evil.so"), "{}", trusted.text);
    }
}

#[test]
fn a_fix_stays_within_the_project() {
    let user = User::new();
    let outside = user.write("outside.c", LOST);
    let line = format!("#line 1 \"{}\"\n", outside.display());
    user.write("project/lost.c", &format!("{line}{LOST}"));
    let outcome = user.run("project", &["fix", "--apply", "lost.c"]);
    assert!(outcome.text.contains("outside the project directory"), "{}", outcome.text);
    assert_eq!(fs::read_to_string(&outside).expect("the file"), LOST);
}
