//! `crashproof replay`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use crashproof_check::{NotAToken, Token};

use crate::build::Programs;
use crate::exit::Exit;
use crate::saved::{self, Access, Saved};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Id or token printed by `crashproof check`
    #[arg(value_name = "ID")]
    token: String,

    /// Run the failing recovery under gdb
    ///
    /// Stops where recovery fails and selects the innermost frame of your code. The gdb commands `crashproof lost`,
    /// `crashproof survived` and `crashproof reads` say what recovery found.
    #[arg(long)]
    debug: bool,

    /// Replay even if the program was rebuilt since
    #[arg(long)]
    anyway: bool,

    /// Print the token itself, which works without the files below .crashproof
    #[arg(long)]
    token_only: bool,
}

/// The commands for gdb before the program starts: follow the recovery, which is a child of the parked program, stop
/// however it fails, and then go up to the first function with source of the program.
fn script(saved: Option<&Saved>) -> String {
    let none = Vec::new();
    let list = |name: &str, accesses: &[Access]| {
        let lines: Vec<String> =
            accesses.iter().map(|access| format!("    {:?},\n", access.whole())).collect();
        format!("{name} = [\n{}]\n", lines.concat())
    };
    let lost = list("lost", saved.map_or(&none, |saved| &saved.lost));
    let survived = list("survived", saved.map_or(&none, |saved| &saved.survived));
    let reads = list("reads", saved.map_or(&none, |saved| &saved.reads));
    format!("{lost}{survived}{reads}{COMMANDS}")
}

const COMMANDS: &str = r#"
import gdb

def tell(lines):
    for line in lines or ["nothing is known; replay by the id that check printed"]:
        print(line)

class Prefix(gdb.Command):
    """What recovery found after the crash."""
    def __init__(self):
        super().__init__("crashproof", gdb.COMMAND_USER, prefix=True)

class Part(gdb.Command):
    def __init__(self, name, lines):
        super().__init__("crashproof " + name, gdb.COMMAND_USER)
        self.lines = lines
    def invoke(self, argument, from_tty):
        tell(self.lines)

Prefix()
Part("lost", lost)
Part("survived", survived)
Part("reads", reads)

def is_users(frame):
    table = frame.find_sal().symtab
    if table is None or frame.name() is None:
        return False
    path = table.fullname()
    system = ("/usr/", "/rustc/", "./", "../")
    module = gdb.solib_name(frame.pc()) or ""
    return not (
        path.startswith(system) or "/rustlib/" in path or "crashproof_runtime" in module or "/build/glibc" in path
    )

# Only the first stop is the failure; the others are up to who debugs.
def stopped(event):
    gdb.events.stop.disconnect(stopped)
    frame = gdb.newest_frame()
    while frame is not None and not is_users(frame):
        frame = frame.older()
    if frame is not None:
        frame.select()
        gdb.execute("frame")
    else:
        print("no frame has a source line of the program: `main` has returned, or was built without -g")
    print("recovery fails here; `crashproof lost`, `crashproof survived` and `crashproof reads` say what it found")

gdb.execute("set breakpoint pending on")
gdb.execute("set follow-fork-mode child")
gdb.execute("set detach-on-fork on")
gdb.execute("set confirm off")
for function in ["__crashproof_assert_failed", "exit", "_exit", "rust_panic"]:
    # Captured: gdb complains of each that is not loaded yet.
    gdb.execute(f"python gdb.Breakpoint('{function}', internal=True)", to_string=True)
gdb.events.stop.connect(stopped)
"#;

/// The token, and what is known about the failure.
fn find(text: &str) -> Result<(Token, Option<Saved>), String> {
    if let Some(saved) = saved::find(text) {
        return Ok((Token::decode(&saved.token).map_err(|error| error.to_string())?, Some(saved)));
    }
    match Token::decode(text) {
        Ok(token) => Ok((token, None)),
        // Too short for a token, so it should be an id.
        Err(NotAToken::Damaged) if text.len() <= 16 => Err(format!(
            "no such failure: {}\ncopy the id from the report of `crashproof check`, and run this where the check ran, or \
             below",
            text.escape_debug()
        )),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn run(arguments: &Arguments, trust: bool) -> io::Result<Exit> {
    let (token, saved) = match find(&arguments.token) {
        Ok(found) => found,
        Err(error) => {
            anstream::eprintln!("crashproof: {error}");
            return Ok(Exit::Usage);
        }
    };
    let text = saved.as_ref().map_or(arguments.token.as_str(), |saved| &saved.token);
    if !(trust || arguments.token_only || crate::trust::is_own(text) || is_below_trusted(&token)) {
        anstream::eprintln!("{}", refusal(&token));
        return Ok(Exit::Usage);
    }
    let mut out = anstream::stdout().lock();
    if arguments.token_only {
        writeln!(out, "{}", token.encode())?;
        return Ok(Exit::Clean);
    }
    let scratch = tempfile::Builder::new().prefix("crashproof-gdb-").suffix(".py").tempfile()?;
    let debugger = if arguments.debug {
        std::fs::write(scratch.path(), script(saved.as_ref()))?;
        let script = scratch.path().as_os_str();
        let words = ["gdb", "-q", "-x"].map(OsString::from).into_iter().chain([script.to_owned()]);
        Some(words.chain(["-ex", "run", "--args"].map(OsString::from)).collect::<Vec<_>>())
    } else {
        None
    };
    let recover = token.recover.first().map(PathBuf::from);
    let given: Vec<PathBuf> =
        std::iter::once(&token.program).chain(&token.more_sources).map(PathBuf::from).collect();
    let cflags: Vec<OsString> = token.cflags.iter().map(OsString::from).collect();
    let programs = match Programs::new(&given, recover.as_deref(), &cflags) {
        Ok(programs) => programs,
        Err(message) => {
            anstream::eprintln!("crashproof: {message}");
            return Ok(Exit::Usage);
        }
    };
    let (program, recover) = (programs.program.path.clone(), programs.recovery().map(Path::to_owned));
    let replay =
        match crashproof_check::replay(&token, program, recover, debugger.as_deref(), arguments.anyway) {
            Ok(replay) => replay,
            Err(error) => {
                anstream::eprintln!("crashproof: {error}");
                return Ok(Exit::Usage);
            }
        };
    if let Some(saved) = saved.as_ref().filter(|_| !arguments.debug) {
        tell(&mut out, saved)?;
    }
    // The user determines how a debugged program ends.
    if arguments.debug {
        return Ok(Exit::Clean);
    }
    if !replay.output.is_empty() {
        writeln!(out, "{}", replay.output)?;
    }
    match replay.failure {
        Some(failure) => {
            writeln!(out, "recovery {}", failure.describe_with(&replay.output))?;
            Ok(Exit::Findings)
        }
        None => {
            writeln!(out, "recovery succeeds: this failure no longer occurs")?;
            Ok(Exit::Clean)
        }
    }
}

/// Is everything that the token would run below directories that the user trusts? Compiler arguments can run anything.
fn is_below_trusted(token: &Token) -> bool {
    let programs = [&token.program].into_iter().chain(&token.more_sources).chain(token.recover.first());
    token.cflags.is_empty() && programs.map(Path::new).all(crate::trust::is_below_trusted)
}

/// What a token would run, and how to allow it.
fn refusal(token: &Token) -> String {
    let shown = |words: &mut dyn Iterator<Item = &String>| {
        let words: Vec<String> = words.map(|word| word.escape_debug().to_string()).collect();
        shell_words::join(words)
    };
    let program = std::iter::once(&token.program);
    let mut lines = vec![
        "crashproof: none of your own checks printed this token; it would run".to_owned(),
        format!("    {}", shown(&mut program.clone().chain(&token.arguments))),
    ];
    if !token.recover.is_empty() {
        lines.push(format!("    {}", shown(&mut token.recover.iter())));
    }
    if !token.more_sources.is_empty() || !token.cflags.is_empty() {
        let built = program.chain(&token.more_sources).chain(&token.cflags);
        lines.push(format!("compiled from {}", shown(&mut built.into_iter())));
    }
    lines.push("to run it, add --trust".to_owned());
    lines.join("\n")
}

/// Prints the saved story.
fn tell(out: &mut dyn Write, saved: &Saved) -> io::Result<()> {
    writeln!(out, "{}", saved.title)?;
    for (word, lines) in [("lost", &saved.lost), ("survived", &saved.survived), ("read", &saved.reads)] {
        // What the report shows of many; all of them if it shows none.
        let any = lines.iter().any(|access| access.main);
        for access in lines.iter().filter(|access| access.main || !any).take(8) {
            writeln!(out, "  {word:8} {}", access.brief())?;
        }
    }
    for (word, text) in [("cause", &saved.cause), ("fix", &saved.fix)] {
        if !text.is_empty() {
            writeln!(out, "  {word:8} {text}")?;
        }
    }
    writeln!(out)
}
