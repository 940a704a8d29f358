//! Rust programs: `crashproof cargo build`, `run` and `test`.
//!
//! rustc takes no pass plugins, but it can leave optimization to the linker (`-Clinker-plugin-lto`), and
//! lld takes them. So crates become bitcode and the plugin runs when a program is linked. Two things make
//! this work without touching the project:
//!
//! * `CARGO_BUILD_TARGET`: with a target given, even that of the host, cargo keeps build scripts and
//!   procedural macros apart, and these stay uninstrumented.
//! * `RUSTC_WRAPPER`: sees the options of each crate, so it can choose the pipeline that fits the
//!   optimization level. Without optimization lld runs no pipeline at all unless told to.
//!
//! # Limits
//!
//! * The standard library comes precompiled: generic and inlined code of it is instrumented, the rest is
//!   not. Strict mode of the runtime finds accesses to PM from there.
//! * Statics in the section `crashproof_pm` are replaced at link time only, after rustc's own
//!   optimizations. They must be `static mut` or hold an `UnsafeCell`, and be `#[used]`.
//! * Link-time optimization asked for in a profile is ignored.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::driver::{fail, joined, replace_by};
use crate::{Error, Toolchain};

/// The only target there is.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Set for the wrapper, so that one binary can be both driver and wrapper.
pub const WRAPPER_VARIABLE: &str = "CRASHPROOF_RUSTC_WRAPPER";

/// Refuses a rustc whose bitcode the plugin does not understand. `toolchain` is rustup's, such as `+1.95`.
///
/// # Errors
///
/// If rustc cannot be run, or has another LLVM.
pub fn require_llvm(toolchain: Option<&OsStr>) -> Result<(), Error> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = crate::output(Command::new(&rustc).args(toolchain).arg("-vV"))
        .map_err(|cause| Error::Run { program: rustc.clone().into(), cause })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match llvm_of(&text) {
        Some((version, llvm)) if llvm.split('.').next() != Some(crate::LLVM) => {
            Err(Error::OtherLlvm { version: version.to_owned(), llvm: llvm.to_owned() })
        }
        // An unrecognized linker may be a wrapper of the user's; lld will report an error.
        _ => Ok(()),
    }
}

/// The version of rustc and that of its LLVM, from what `rustc -vV` prints.
fn llvm_of(text: &str) -> Option<(&str, &str)> {
    let version = text.lines().next()?;
    let llvm = text.lines().find_map(|line| line.strip_prefix("LLVM version: "))?;
    Some((version, llvm.trim()))
}

/// The environment for cargo. `wrapper` is a program that calls [`wrap_rustc`] when [`WRAPPER_VARIABLE`]
/// is set; `drivers` are stand-ins for the C and C++ compilers of build scripts; `target_directory` keeps
/// instrumented crates away from others, which cargo could not tell apart.
///
/// # Errors
///
/// If there is no runtime.
pub fn environment(
    toolchain: &Toolchain,
    wrapper: &Path,
    drivers: Option<(&Path, &Path)>,
    target_directory: &Path,
) -> Result<Vec<(OsString, OsString)>, Error> {
    let runtime = toolchain.runtime()?;
    let mut all: Vec<(OsString, OsString)> = vec![
        ("CARGO_BUILD_TARGET".into(), TARGET.into()),
        ("CARGO_TARGET_DIR".into(), target_directory.into()),
        ("RUSTC_WRAPPER".into(), wrapper.into()),
        (WRAPPER_VARIABLE.into(), "1".into()),
        ("CRASHPROOF_CLANG".into(), toolchain.compilers.clang.clone().into()),
        ("CRASHPROOF_CLANGXX".into(), toolchain.compilers.clang_cxx.clone().into()),
        ("CRASHPROOF_PLUGIN".into(), toolchain.plugin.clone().into()),
        ("CRASHPROOF_RUNTIME".into(), runtime.into()),
    ];
    // Documentation tests do not pass through the wrapper. Separated by 0x1f, as cargo wants it.
    let mut rustdoc = rustc_options(toolchain, "0")?;
    // rustdoc does not know it; the crate that is tested brings the library along.
    rustdoc.retain(|option| !option.to_string_lossy().starts_with("-ldylib="));
    all.push(("CARGO_ENCODED_RUSTDOCFLAGS".into(), rustdoc.join(OsStr::new("\u{1f}"))));
    if let Some((c, cxx)) = drivers {
        let target = TARGET.replace('-', "_");
        all.push((format!("CC_{target}").into(), c.into()));
        all.push((format!("CXX_{target}").into(), cxx.into()));
    }
    Ok(all)
}

/// Options for rustc at an optimization level.
fn rustc_options(toolchain: &Toolchain, level: &str) -> Result<Vec<OsString>, Error> {
    let runtime = toolchain.runtime()?;
    // What rustc has left for later, then instrumentation.
    let pipeline = match level {
        "0" => "crashproof-prepare,always-inline,crashproof",
        "1" => "thinlto<O1>,crashproof",
        "3" => "thinlto<O3>,crashproof",
        _ => "thinlto<O2>,crashproof",
    };
    let mut options: Vec<OsString> = vec![
        "-Clinker-plugin-lto".into(),
        joined("-Clinker=", &toolchain.compilers.clang),
        "-Clink-arg=-fuse-ld=lld".into(),
    ];
    // As a library of the crate it stands before the C library, whose functions it must come before; as an
    // argument of the linker it would stand behind.
    let name = runtime.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    match (name.strip_prefix("lib"), runtime.parent()) {
        (Some(name), Some(directory)) => {
            options.extend([joined("-Lnative=", directory), format!("-ldylib={name}").into()]);
        }
        _ => options.push(joined("-Clink-arg=", runtime)),
    }
    // Not -Wl, which splits at commas.
    let mut to_linker = |option: OsString| {
        let mut argument = OsString::from("-Clink-arg=");
        argument.push(option);
        options.extend(["-Clink-arg=-Xlinker".into(), argument]);
    };
    to_linker(joined("--load-pass-plugin=", &toolchain.plugin));
    to_linker(format!("--lto-newpm-passes={pipeline}").into());
    if let Some(directory) = runtime.parent() {
        to_linker("--disable-new-dtags".into());
        to_linker(joined("-rpath=", directory));
    }
    Ok(options)
}

/// What the wrapper makes of a command line: `rustc`, then its arguments.
///
/// # Errors
///
/// If there is no runtime.
pub fn wrapped(arguments: &[OsString], toolchain: &Toolchain) -> Result<Vec<OsString>, Error> {
    let is = |argument: &OsString, text: &str| argument.to_str().is_some_and(|a| a.starts_with(text));
    // Without a target: for the host, or a question.
    if !arguments.iter().any(|argument| is(argument, "--target")) {
        return Ok(arguments.to_vec());
    }
    let mut result: Vec<OsString> = Vec::new();
    let (mut level, mut debug_info) = (String::from("0"), false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        // `-C name=value` in one word or two.
        let (option, words) = match text.strip_prefix("-C").or(text.strip_prefix("--codegen=")) {
            Some("") => {
                let value = rest.next().cloned().unwrap_or_default();
                (value.to_string_lossy().into_owned(), vec![argument.clone(), value])
            }
            Some(value) => (value.to_owned(), vec![argument.clone()]),
            None => (String::new(), vec![argument.clone()]),
        };
        match option.split_once('=').unwrap_or((&option, "")) {
            // Release profiles strip what reports are made from.
            ("lto" | "embed-bitcode" | "linker-plugin-lto" | "strip", _) => continue,
            ("opt-level", value) => level = value.to_owned(),
            ("debuginfo", value) => debug_info = value != "0",
            _ if text == "-O" => level = "3".into(),
            _ if text == "-g" => debug_info = true,
            _ => {}
        }
        result.extend(words);
    }
    result.extend(rustc_options(toolchain, &level)?);
    if level == "0" {
        // Library code can be inlined into its callers, for the sake of reports, only within a unit.
        result.push("-Ccodegen-units=1".into());
    }
    // Names that the demangler of LLVM reads; the older ones it takes for those of C++.
    result.push("-Csymbol-mangling-version=v0".into());
    if is_compilation(arguments) {
        // Below -O2 generic code of the standard library that others have used before is taken precompiled, without
        // instrumentation and without the user's call around it.
        result.push("-Zshare-generics=no".into());
    }
    if !debug_info {
        result.push("-Cdebuginfo=line-tables-only".into());
    }
    Ok(result)
}

/// Does cargo compile a crate, rather than a build script try what the compiler can do?
fn is_compilation(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument.to_string_lossy().contains("metadata="))
}

/// The environment for what [`wrapped`] gives. rustc takes options that are not stable only from those who build it; what
/// build scripts try is left as it is, or crates would believe to be built by a nightly compiler.
#[must_use]
pub fn wrapped_environment(arguments: &[OsString]) -> Option<(&'static str, &'static str)> {
    is_compilation(arguments).then_some(("RUSTC_BOOTSTRAP", "1"))
}

/// Whether cargo calls this program as its wrapper around rustc.
#[must_use]
pub fn is_wrapper_call(arguments: &[OsString]) -> bool {
    let is_rustc = |path: &OsString| {
        Path::new(path).file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with("rustc"))
    };
    std::env::var_os(WRAPPER_VARIABLE).is_some() && arguments.first().is_some_and(is_rustc)
}

/// Runs the wrapper to its end. The first argument is the path of rustc.
#[must_use]
pub fn wrap_rustc(arguments: &[OsString]) -> ExitCode {
    let error = match Toolchain::find().and_then(|toolchain| wrapped(arguments, &toolchain)) {
        Ok(words) => match words.split_first() {
            Some((rustc, rest)) => {
                let mut command = Command::new(rustc);
                command.args(rest).envs(wrapped_environment(arguments));
                replace_by(command)
            }
            None => return ExitCode::FAILURE,
        },
        Err(error) => error,
    };
    fail(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compilers;

    fn toolchain() -> Toolchain {
        let compilers = Compilers { clang: "clang-22".into(), clang_cxx: "clang++-22".into(), include: None };
        Toolchain { compilers, plugin: "lib/plugin.so".into(), runtime: Ok("lib/runtime.so".into()) }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_llvm_of_rustc() {
        let text = "rustc 1.80.0 (051478957 2024-07-21)\nbinary: rustc\nLLVM version: 18.1.7\n";
        assert_eq!(llvm_of(text), Some(("rustc 1.80.0 (051478957 2024-07-21)", "18.1.7")));
        assert_eq!(llvm_of("something else"), None);
    }

    #[test]
    fn the_host_is_left_alone() {
        let line = words("rustc --crate-name build_script_build build.rs -C opt-level=3");
        assert_eq!(wrapped(&line, &toolchain()).unwrap(), line);
    }

    #[test]
    fn the_target_is_instrumented() {
        let line =
            "rustc a.rs --target x86_64-unknown-linux-gnu -C opt-level=3 -C lto=fat -Cembed-bitcode=no";
        let result = wrapped(&words(line), &toolchain()).unwrap();
        let text = result.join(OsStr::new(" ")).into_string().unwrap();
        assert!(text.contains("--lto-newpm-passes=thinlto<O3>,crashproof"), "{text}");
        assert!(text.contains("-Cdebuginfo=line-tables-only"), "{text}");
        assert!(!text.contains("lto=fat") && !text.contains("embed-bitcode"), "{text}");
    }

    #[test]
    fn debug_builds_keep_their_debug_information() {
        let line = "rustc a.rs --target=x86_64-unknown-linux-gnu -C debuginfo=2";
        let result = wrapped(&words(line), &toolchain()).unwrap();
        let text = result.join(OsStr::new(" ")).into_string().unwrap();
        assert!(text.contains("--lto-newpm-passes=crashproof-prepare,always-inline,crashproof"), "{text}");
        assert!(!text.contains("line-tables-only"), "{text}");
    }

    #[test]
    fn reports_keep_what_they_are_made_from() {
        let line =
            "rustc --crate-name a a.rs --target=x86_64-unknown-linux-gnu -C strip=debuginfo -C metadata=1f";
        let result = wrapped(&words(line), &toolchain()).unwrap();
        let text = result.join(OsStr::new(" ")).into_string().unwrap();
        assert!(!text.contains("strip="), "{text}");
        assert!(
            text.contains("-Zshare-generics=no") && text.contains("-Csymbol-mangling-version=v0"),
            "{text}"
        );
        assert_eq!(wrapped_environment(&words(line)), Some(("RUSTC_BOOTSTRAP", "1")));
    }

    #[test]
    fn what_build_scripts_try_meets_the_compiler_as_it_is() {
        let line =
            words("rustc --crate-name probe probe.rs --target=x86_64-unknown-linux-gnu --emit=metadata");
        let result = wrapped(&line, &toolchain()).unwrap();
        assert!(!result.iter().any(|option| option.to_string_lossy().starts_with("-Z")), "{result:?}");
        assert_eq!(wrapped_environment(&line), None);
    }
}
