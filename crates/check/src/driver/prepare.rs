//! Steps before the recorded run: running the program that prepares files, and discovering which files are mapped.

use std::path::{Path, PathBuf};
use std::process::Command;

use crashproof_protocol::{DEFAULT_PM_PATH, PM_PATH, Record, exit, flag};
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object, ObjectSymbol};
use px86::Kind;

use crate::driver::options::{Medium, Options};
use crate::driver::recording::record_run;
use crate::subject::{Durable, Ending, Error, Launch, Mode, Process, Run, Schedule, Subject};

/// Starts a program, with the files prepared by `--setup`.
pub(crate) fn start(options: &Options, launch: Launch) -> Result<Process, Error> {
    let mut process = Process::start(launch)?;
    if let [program, arguments @ ..] = &options.setup[..] {
        let program = PathBuf::from(program);
        let launch = Launch {
            program: program.clone(),
            arguments: arguments.iter().map(Into::into).collect(),
            client: Vec::new(),
            ..options.launch()
        };
        match Process::start(launch) {
            Ok(setup) => process.adopt_files(&prepared(options, &program, setup)?),
            // It may not be instrumented: then it changes the files themselves.
            Err(Error::NotInstrumented { .. }) => {
                run_plainly(&program, arguments, options.directory.as_deref())?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(process)
}

/// Runs the program that prepares the files, and makes its effects durable.
fn prepared(options: &Options, program: &Path, mut setup: Process) -> Result<Process, Error> {
    let recorded = record_run(&mut setup, false, Schedule::default(), options.run_limits());
    let recorded = recorded.map_err(|error| match error {
        Error::FailsAlone { how, output, .. } => {
            Error::Setup { program: program.to_owned(), how: format!("fails ({how})\n{output}") }
        }
        other => other,
    })?;
    for record in recorded.records.iter().filter(|record| record.event_kind().is_some_and(Kind::stores)) {
        setup.set_image(record.address(), record.width(), record.value);
    }
    Ok(setup)
}

fn run_plainly(program: &Path, arguments: &[String], directory: Option<&Path>) -> Result<(), Error> {
    let failed = |how: String| Error::Setup { program: program.to_owned(), how };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory.unwrap_or(Path::new(".")));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("failed ({status})"))),
        Err(error) => Err(failed(format!("cannot be run: {error}"))),
    }
}

/// Libraries that do not map files of the program.
const MAPS_NOTHING: [&str; 9] = [
    "libc.",
    "libm.",
    "libgcc_s.",
    "libstdc++.",
    "libpthread.",
    "libdl.",
    "librt.",
    "ld-linux",
    "libcrashproof_runtime.",
];

/// Might the program map files, directly or through a library? Most do not, and need not be run to find out.
fn may_map(program: &Path) -> bool {
    let Ok(bytes) = std::fs::read(program) else { return false };
    // A script: its interpreter may.
    let Ok(file) = object::File::parse(&*bytes) else { return true };
    let unknown = |name: &&str| !MAPS_NOTHING.iter().any(|known| name.starts_with(known));
    file.dynamic_symbols().any(|symbol| {
        symbol.is_undefined()
            && symbol
                .name()
                .is_ok_and(|name| matches!(name.split('@').next(), Some("mmap" | "mmap64" | "dlopen")))
    }) || needed(&bytes).iter().any(unknown)
}

/// The names of the libraries that a program needs.
fn needed(bytes: &[u8]) -> Vec<&str> {
    let Ok(header) = FileHeader64::<Endianness>::parse(bytes) else { return Vec::new() };
    let read = || {
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let (entries, link) = sections.dynamic(endian, bytes).ok()??;
        let strings = sections.strings(endian, bytes, link).ok()?;
        let names = entries.iter().filter(|entry| entry.d_tag(endian) == DT_NEEDED);
        let names = names.filter_map(|entry| strings.get(entry.d_val(endian) as u32).ok());
        Some(names.filter_map(|name| std::str::from_utf8(name).ok()).collect())
    };
    read().unwrap_or_default()
}

/// The most mapped files to discover: each run finds one.
const MOST_FILES: usize = 1000;

/// What a first run reveals about a program started without options for its files.
#[derive(Default)]
pub(crate) struct Discovered {
    /// The files it maps.
    pub(crate) files: Vec<PathBuf>,
    /// The medium, as far as its operations on the files reveal it.
    medium: Option<Medium>,
    /// A further file that it maps, which is not followed.
    left_out: Option<PathBuf>,
}

impl Discovered {
    /// Why the verdict does not cover all files, if so.
    pub(crate) fn incomplete(&self) -> Option<String> {
        let left_out = self.left_out.as_ref()?;
        Some(format!(
            "{} and what the program maps after it are not followed: only {} files were looked for \
             (--pm-path with their directory follows all)",
            left_out.display(),
            self.files.len()
        ))
    }

    /// The corresponding remark in the report.
    pub(crate) fn remark(&self) -> Option<String> {
        let [first, others @ ..] = &self.files[..] else { return None };
        let more = match others.len() {
            0 => String::new(),
            1 => format!(" and {}", others[0].display()),
            count => format!(" and {count} other files"),
        };
        let why = match self.medium {
            Some(Medium::Disk(_)) => "a disk: the program calls msync or fsync and flushes no cache line",
            _ => "persistent memory",
        };
        Some(format!(
            "{}{more}: taken as persistent because the program maps it \
             shared, on {why} (--pm-path and --medium change this)",
            first.display()
        ))
    }
}

/// Without a PM path, every file that the program maps shared and writable is persistent. Runs the program until it
/// maps one, keeping all writes off the disk, and again until it maps no further file. That last run shows how the
/// program makes data durable: one that calls the kernel and never flushes a line expects its files to be on a disk.
pub(crate) fn discover(options: &Options) -> Result<(Options, Discovered), Error> {
    let mut options = options.clone();
    let mut found = Discovered::default();
    let asked = options.pm_path.is_empty() && std::env::var_os(PM_PATH).is_none_or(|paths| paths.is_empty());
    if !asked || options.pm_heap || options.all_files || !may_map(&options.program) {
        return Ok((options, found));
    }
    loop {
        let mut launch = options.launch();
        launch.switches |= flag::DISCOVER;
        let mut process = start(&options, launch)?;
        let run = Run {
            mode: Mode::Record { regions: false },
            schedule: Schedule::default(),
            crashes: 0,
            durable: Durable::nothing(),
            limits: options.run_limits().recording(),
        };
        // The recorded run will show if it fails in any other way.
        let ending = process.run(&run, &[])?.ending;
        let path = process.mapped_outside().filter(|_| ending == Ending::Exit(exit::DISCOVERED));
        let is_new = |path: &PathBuf| !found.files.contains(path) && found.files.len() < MOST_FILES;
        let Some(path) = path.clone().filter(is_new) else {
            found.left_out = path;
            let flushes = process.records().iter().any(asks_the_hardware);
            if !found.files.is_empty() && options.medium.is_none() && process.has_synced() && !flushes {
                found.medium = Some(Medium::DISK);
                options.set_medium(Medium::DISK);
                (options.all_files, options.robust) = (true, false);
            }
            return Ok((options, found));
        };
        if found.files.is_empty() {
            options.pm_path = DEFAULT_PM_PATH.split(':').map(PathBuf::from).collect();
        }
        options.pm_path.push(path.clone());
        found.files.push(path);
    }
}

/// Does the program itself write a line back, instead of asking the kernel?
fn asks_the_hardware(record: &Record) -> bool {
    match record.event_kind() {
        Some(Kind::Flush | Kind::FlushOpt) => record.width() == 0,
        Some(Kind::NonTemporalStore) => true,
        _ => false,
    }
}
