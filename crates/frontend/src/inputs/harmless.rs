//! Compiler arguments from untrusted data: those of a compilation database.
//!
//! An allowlist, since the ways in which a compiler runs code (`-fplugin=`, `-Xclang -load`, `-B`, `-wrapper`,
//! `-specs=`) or writes files cannot be enumerated. Any other argument is left out and reported. Arguments that affect
//! neither types nor code (warnings, optimization, dependencies) are removed earlier.

/// Options with a value, in the same word or the next one.
const WITH_VALUE: [&str; 14] = [
    "-I",
    "-D",
    "-U",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-include",
    "-imacros",
    "-iprefix",
    "-iwithprefixbefore",
    "-iwithprefix",
    "-isysroot",
    "-x",
    "-target",
];

/// Single-word options with these prefixes. `-Wp,` passes a word to the preprocessor.
const PREFIXES: [&str; 11] = [
    "-std=",
    "--std=",
    "--sysroot=",
    "--target=",
    "-stdlib=",
    "-nostdinc",
    "-ansi",
    "-pthread",
    "-trigraphs",
    "-Wp,-D",
    "-Wp,-U",
];

/// Options with prefix `-f` or `-m` and no value that load code, write files or pass words on.
const NOT_HARMLESS: [&str; 13] = [
    "-fplugin",
    "-fpass-plugin",
    "-fmodule",
    "-fdump",
    "-fsave",
    "-fstack-usage",
    "-ftime-trace",
    "-fproc-stat",
    "-frecord",
    "-fuse-ld",
    "-fcrash",
    "-mllvm",
    "-mlinker",
];

/// Options with `=` that only select the meaning of code.
const MEANINGS: [&str; 20] = [
    "-fvisibility=",
    "-fvisibility-inlines",
    "-fmax-errors=",
    "-ftemplate-depth=",
    "-fconstexpr-",
    "-fmessage-length=",
    "-fdiagnostics-color=",
    "-ffp-",
    "-fabi-version=",
    "-fabi-compat-version=",
    "-fpack-struct=",
    "-ftls-model=",
    "-fexec-charset=",
    "-finput-charset=",
    "-fmacro-prefix-map=",
    "-ffile-prefix-map=",
    "-fdebug-prefix-map=",
    "-fcf-protection=",
    "-fpatchable-function-entry=",
    "-ftrivial-auto-var-init=",
];

/// Splits arguments into those kept and those left out.
pub(crate) fn split(words: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            let value = words.next();
            kept.push(word);
            kept.extend(value);
        } else if !word.starts_with('-') || is_harmless(&word) {
            kept.push(word);
        } else {
            // The word after `-Xclang`, `-B` or an unknown option may be its value.
            let value = words.next_if(|next| takes_next(&word) && !next.is_empty());
            left_out.push(value.map_or(word.clone(), |value| format!("{word} {value}")));
        }
    }
    (kept, left_out)
}

/// Options that are left out together with the next word.
fn takes_next(word: &str) -> bool {
    word.starts_with("-X")
        || ["-B", "-mllvm", "-load", "-wrapper", "--param", "-arch", "-include-pch", "--config", "-aux-info"]
            .contains(&word)
}

fn is_harmless(word: &str) -> bool {
    let begins = |list: &[&str]| list.iter().any(|prefix| word.starts_with(prefix));
    if begins(&PREFIXES) {
        return true;
    }
    if word.starts_with("-include-pch") || word.starts_with("-target-") {
        return false;
    }
    if WITH_VALUE.iter().any(|option| word.len() > option.len() && word.starts_with(option)) {
        return true;
    }
    let machine = word.starts_with("-m") && !begins(&NOT_HARMLESS);
    let feature = word.starts_with("-f") && !word.contains('=') && !begins(&NOT_HARMLESS);
    machine || feature || begins(&MEANINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_line(line: &str) -> (String, String) {
        let (kept, left_out) = split(line.split_whitespace().map(str::to_owned).collect());
        (kept.join(" "), left_out.join(" | "))
    }

    #[test]
    fn what_ordinary_projects_pass_is_kept() {
        let line = "-DX=1 -D Y -I inc -Iother -isystem /usr/x -std=gnu11 -fPIC -fno-exceptions -march=native -mclwb \
                    -pthread -include config.h -fvisibility=hidden -x c++ -nostdinc++ a.c";
        assert_eq!(split_line(line), (line.split_whitespace().collect::<Vec<_>>().join(" "), String::new()));
    }

    #[test]
    fn whatever_could_run_code_or_write_files_is_left_out() {
        for argument in [
            "-fplugin=x.so",
            "-fplugin-arg-x-y",
            "-fpass-plugin=x.so",
            "-Xclang -load",
            "-mllvm -load=x.so",
            "-B ./bin",
            "-B./bin",
            "-specs=x",
            "-wrapper x",
            "--config=x.cfg",
            "-ccc-install-dir",
            "-fmodules-cache-path=x",
            "-ftime-trace=x",
            "-foptimization-record-file=x",
            "-serialize-diagnostics",
            "-include-pch x.pch",
            "-Wp,-MD,x",
            "--serialize-diagnostics=x",
            "-fuse-ld=./x",
        ] {
            let (kept, left_out) = split_line(&format!("-DX {argument} a.c"));
            assert_eq!(left_out, argument, "{kept}");
            assert_eq!(kept, "-DX a.c");
        }
    }
}
