//! Reads a compiler command line as far as a driver must: does it compile, does it link, what is missing.
//!
//! Everything is passed on to clang unchanged. Only the few options matter that decide whether there is something to
//! instrument or to link.

use std::ffi::OsString;
use std::path::Path;

use crate::{Error, FileKind};

/// What a command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// It has input files; without, clang is only asked a question.
    pub has_inputs: bool,
    /// It ends with a link.
    pub links: bool,
    /// It links to a relocatable object, which gets no runtime.
    pub relocatable: bool,
    /// Debug information is asked for.
    pub debug_info: bool,
    /// The option that asks for link-time optimization.
    pub link_time_optimization: Option<String>,
    /// The option that asks for a static program.
    pub static_program: Option<String>,
    /// Assembly files, which cannot be instrumented.
    pub assembly: Vec<String>,
}

/// Options whose value is the next argument.
const WITH_VALUE: [&str; 46] = [
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-B",
    "-F",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-b",
    "-h",
    "-include",
    "-include-pch",
    "-imacros",
    "-isystem",
    "-isysroot",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-ivfsoverlay",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xclang",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xanalyzer",
    "-mllvm",
    "-target",
    "--target",
    "-arch",
    "-framework",
    "-rpath",
    "-soname",
    "--param",
    "--sysroot",
];

/// Options that stop before the link.
const WITHOUT_LINK: [&str; 11] = [
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "--precompile",
    "-emit-ast",
    "--analyze",
    "-emit-pch",
    "-emit-interface-stubs",
];

impl Request {
    /// Reads a command line, response files included.
    ///
    /// # Errors
    ///
    /// If a response file cannot be read.
    pub fn read(arguments: &[OsString]) -> Result<Self, Error> {
        let mut words = Vec::new();
        expand(arguments, Path::new(""), 0, &mut words)?;
        let mut request = Request::default();
        let (mut stops, mut language, mut only_headers) = (false, String::new(), true);
        let mut arguments = words.iter().map(String::as_str);
        let mut options_over = false;
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                options_over = true;
            } else if options_over || argument == "-" || !argument.starts_with('-') {
                request.input(argument, &language, &mut only_headers);
            } else if WITH_VALUE.contains(&argument) {
                let value = arguments.next().unwrap_or("");
                match argument {
                    "-x" => language = value.to_owned(),
                    "-l" => request.library(&mut only_headers),
                    _ => {}
                }
            } else if let Some(value) = argument.strip_prefix("-x") {
                language = value.to_owned();
            } else if argument.starts_with("-l") {
                request.library(&mut only_headers);
            } else if WITHOUT_LINK.contains(&argument) {
                stops = true;
            } else {
                request.option(argument);
            }
        }
        request.links = request.has_inputs && !stops && !only_headers;
        Ok(request)
    }

    fn input(&mut self, file: &str, language: &str, only_headers: &mut bool) {
        self.has_inputs = true;
        let kind = match language {
            "" | "none" => FileKind::of(Path::new(file)),
            language if language.ends_with("-header") => Some(FileKind::Header),
            language if language.starts_with("assembler") => Some(FileKind::Assembly),
            _ => None,
        };
        // Headers given alone are precompiled.
        *only_headers &= kind == Some(FileKind::Header);
        if kind == Some(FileKind::Assembly) {
            self.assembly.push(file.to_owned());
        }
    }

    fn library(&mut self, only_headers: &mut bool) {
        self.has_inputs = true;
        *only_headers = false;
    }

    fn option(&mut self, option: &str) {
        match option {
            "-r" | "--relocatable" | "-Wl,-r" => self.relocatable = true,
            "-static" | "--static" | "-static-pie" => self.static_program = Some(option.to_owned()),
            "-fno-lto" => self.link_time_optimization = None,
            "-g0" | "-ggdb0" => self.debug_info = false,
            _ if option == "-flto" || option.starts_with("-flto=") => {
                self.link_time_optimization = Some(option.to_owned());
            }
            // -gz compresses and -gsplit-dwarf splits what another option asks for.
            _ if option.starts_with("-gz")
                || option.starts_with("-gsplit")
                || option.starts_with("-gno-") => {}
            _ if option.starts_with("-g") => self.debug_info = true,
            _ => {}
        }
    }
}

/// How deep response files may name each other.
const DEPTH: u32 = 16;

/// A command line with its response files put in their place; those with relative names are looked for in `directory`,
/// where the compiler runs.
///
/// # Errors
///
/// If a response file cannot be read.
pub fn expanded(arguments: &[OsString], directory: &Path) -> Result<Vec<String>, Error> {
    let mut words = Vec::new();
    expand(arguments, directory, 0, &mut words)?;
    Ok(words)
}

fn expand(arguments: &[OsString], base: &Path, depth: u32, out: &mut Vec<String>) -> Result<(), Error> {
    for argument in arguments {
        let text = argument.to_string_lossy();
        match text.strip_prefix('@') {
            Some(file) if depth < DEPTH => {
                let path = base.join(file);
                match std::fs::read_to_string(&path) {
                    Ok(content) => {
                        let words: Vec<OsString> = split(&content).into_iter().map(OsString::from).collect();
                        expand(&words, base, depth + 1, out)?;
                    }
                    // As in clang: anything that is not a file is an argument.
                    Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => out.push(text.into_owned()),
                    Err(cause) => return Err(Error::ResponseFile { path, cause }),
                }
            }
            _ => out.push(text.into_owned()),
        }
    }
    Ok(())
}

/// Splits the content of a response file by the rules of a shell without substitutions.
fn split(content: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = content.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Request {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Request::read(&arguments).unwrap()
    }

    #[test]
    fn compiling_and_linking() {
        assert!(read("a.c").links);
        assert!(read("a.o b.o -o prog").links);
        assert!(read("-shared -fPIC a.c -o liba.so").links);
        assert!(read("-x c -").links);
        for line in
            ["-c a.c", "-S a.c", "-E a.c", "-MM a.c", "-fsyntax-only a.c", "-c -o a.o a.c -MD -MF a.d"]
        {
            assert!(!read(line).links, "{line}");
            assert!(read(line).has_inputs, "{line}");
        }
    }

    #[test]
    fn questions_have_no_inputs() {
        for line in ["--version", "-v", "-dumpmachine", "-print-search-dirs", "-###", "", "-o x -I y"] {
            assert!(!read(line).has_inputs, "{line}");
        }
    }

    #[test]
    fn headers_are_not_linked() {
        assert!(!read("all.h").links);
        assert!(!read("-x c++-header all -o all.pch").links);
        assert!(read("-x c++-header all -x none a.cpp").links);
    }

    #[test]
    fn debug_information() {
        assert!(!read("-c a.c").debug_info);
        assert!(read("-g -c a.c").debug_info);
        assert!(read("-ggdb3 -c a.c").debug_info);
        assert!(!read("-g -g0 -c a.c").debug_info);
        assert!(!read("-gz -c a.c").debug_info);
    }

    #[test]
    fn link_time_optimization_and_static_programs() {
        assert_eq!(read("-flto=thin a.c").link_time_optimization.as_deref(), Some("-flto=thin"));
        assert_eq!(read("-flto -fno-lto a.c").link_time_optimization, None);
        assert_eq!(read("-static a.c").static_program.as_deref(), Some("-static"));
        assert!(read("-r a.o b.o").relocatable);
    }

    #[test]
    fn assembly_files() {
        assert_eq!(read("-c a.S b.c").assembly, ["a.S"]);
        assert_eq!(read("-c -x assembler-with-cpp a").assembly, ["a"]);
    }

    #[test]
    fn response_files() {
        assert_eq!(split("-c 'a b.c'\n\"x\\\"y\" \\ z ''"), ["-c", "a b.c", "x\"y", " z", ""]);
        let file = std::env::temp_dir().join(format!("crashproof-cc-{}.rsp", std::process::id()));
        std::fs::write(&file, "-c -g a.c").unwrap();
        let request = Request::read(&[format!("@{}", file.display()).into()]).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(request.has_inputs && !request.links && request.debug_info);
        assert!(read("@no-such-file.rsp").has_inputs);
    }
}
