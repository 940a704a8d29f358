//! `crashproof explain`.

use std::io::{self, Write};

use clap::Args;
use crashproof_findings::rules::{self, Rule};

use crate::exit::Exit;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The rule, as in `error[RULE]`; all of them are listed if it is not given.
    #[arg(value_name = "RULE")]
    rule: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<Exit> {
    let mut out = anstream::stdout().lock();
    let Some(name) = &arguments.rule else {
        let widest = rules::all().map(|rule| rule.id.len()).max().unwrap_or(0);
        for rule in rules::all() {
            let level = rule.level.word();
            writeln!(out, "{:widest$}  {:5}  {level:7}  {}", rule.id, rule.engine.command(), rule.title)?;
        }
        out.flush()?;
        return Ok(Exit::Clean);
    };
    // Copied from a report, it may still have its brackets.
    let id = name.trim_start_matches(|it| it != '[').trim_matches(['[', ']']);
    let id = if id.is_empty() { name } else { id };
    let Some(rule) = rules::find(id) else {
        let similar = rules::similar(id);
        let meant = match similar.first() {
            Some(meant) => format!("did you mean {meant}?"),
            None => "`crashproof explain` lists all rules".into(),
        };
        anstream::eprintln!("crashproof: there is no rule called {id}; {meant}");
        return Ok(Exit::Usage);
    };
    write!(out, "{}", explanation(rule))?;
    out.flush()?;
    Ok(Exit::Clean)
}

fn explanation(rule: &Rule) -> String {
    let indented = |source: &str| {
        source.lines().map(|line| format!("    {line}\n").replace("    \n", "\n")).collect::<String>()
    };
    format!(
        "{}[{}]: {}\nfound by crashproof {}\n\n{}\nThis breaks it:\n\n{}\nThis does not:\n\n{}",
        rule.level.word(),
        rule.id,
        rule.title,
        [&[rule.engine.command()], rule.bad.arguments].concat().join(" "),
        rule.explanation,
        indented(rule.bad.source),
        indented(rule.good.source),
    )
}
