//! Prints the events of a C program: `dump FILE... [-- CLANG-ARGS... [-- ARGS-OF-MAIN...]]`. Its standard input becomes
//! that of the program.

use std::io::Read;
use std::path::PathBuf;

use crashproof_prove::program::{Action, Event};
use crashproof_prove::term::{Node, Term, Terms};

fn show(terms: &Terms, term: Term, depth: u32) -> String {
    if depth == 0 {
        return format!("t{}", term.index());
    }
    let next = |t| show(terms, t, depth - 1);
    match terms.node(term) {
        Node::Constant(value) => format!("{value:#x}"),
        Node::Symbol(symbol) => format!("{}{}", terms.symbol_name(symbol), symbol.0),
        Node::Not(a) => format!("!{}", next(a)),
        Node::Binary(op, a, b) => format!("{op:?}({}, {})", next(a), next(b)),
        Node::Choose(c, a, b) => format!("({} ? {} : {})", next(c), next(a), next(b)),
        Node::Extract(a, low) => format!("{}[{low}+{}]", next(a), terms.width(term)),
        Node::Concat(a, b) => format!("{}.{}", next(a), next(b)),
        Node::ZeroExtend(a) => format!("zext {}", next(a)),
        Node::SignExtend(a) => format!("sext {}", next(a)),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = arguments.split(|argument| argument == "--");
    let mut part = || parts.next().unwrap_or_default().to_vec();
    let files: Vec<PathBuf> = part().into_iter().map(PathBuf::from).collect();
    let compiler = part().into_iter().map(Into::into).collect();
    let mut stdin = Vec::new();
    std::io::stdin().read_to_end(&mut stdin).expect("readable");
    let options = crashproof_symbolic::Options {
        arguments: part(),
        stdin: Some(stdin),
        unwind: 2,
        ..Default::default()
    };
    let program = match crashproof_symbolic::program(&files, compiler, &options) {
        Ok(program) => program,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    for object in &program.objects {
        println!(
            "object {:#x}+{} {} persistent={}",
            object.address,
            object.initial.len(),
            object.name,
            object.persistent
        );
    }
    let threads = program.threads.iter().chain(&program.recovery);
    for thread in threads {
        println!("{}: {} events", thread.name, thread.events.len());
        for Event { guard, action, site } in &thread.events {
            let line = program.sites[site.0 as usize].line;
            let show = |term: &Term| show(&program.terms, *term, 4);
            let what = match action {
                Action::Load { address, result } => format!("{} = load {}", show(result), show(address)),
                Action::Store { address, value, .. } => format!("store {} = {}", show(address), show(value)),
                Action::Rmw { address, old, new, stores } => {
                    format!("{} = rmw {} to {} if {}", show(old), show(address), show(new), show(stores))
                }
                Action::Flush { address } => format!("flush {}", show(address)),
                Action::FlushOpt { address } => format!("flushopt {}", show(address)),
                Action::Assert { condition, message } => format!("assert {} ({message})", show(condition)),
                other => format!("{other:?}"),
            };
            println!("  {line:4} [{}] {what}", show(guard));
        }
    }
}
