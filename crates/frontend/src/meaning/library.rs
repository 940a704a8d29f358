//! C library functions that access the memory they are passed, byte by byte in any order, with plain stores.
//!
//! The list covers the functions that the runtime interposes (`crates/runtime/src/c_library`; a test compares them).
//! Functions with results of a fixed layout are listed in `crashproof_protocol::results`, which the runtime also uses.
//! Functions that only affect files, threads or the heap are described per framework (`frameworks/raw`). A function
//! found in neither place is not understood.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crashproof_protocol::results;

use super::effect::Effect::{Append, Copy, Fill, Read, Write, WriteAnywhere, WriteThrough};
use super::effect::{Argument, Effect, Extent, Length, Manner};

/// What a library function does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// In order.
    pub effects: &'static [Effect],
    /// What it returns.
    pub returns: Returns,
}

/// What a library function returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// Something else, or nothing.
    Anything,
    /// An argument.
    Argument(Argument),
    /// The end of what was copied or filled exactly: an argument plus a length.
    End(Argument, Length),
    /// A pointer into the object that an argument points to, or null.
    Within(Argument),
    /// A copy on the heap.
    Heap,
}

const WIDE: u64 = 4;

const fn exactly(argument: Argument, unit: u64) -> Extent {
    Extent::Exactly(Length::Argument(argument, unit))
}
const fn at_most(argument: Argument, unit: u64) -> Extent {
    Extent::AtMost(Length::Argument(argument, unit))
}
const fn bytes(count: u64) -> Extent {
    Extent::Exactly(Length::Constant(count))
}
const fn text(argument: Argument) -> Extent {
    Extent::Exactly(Length::Text(argument, 1))
}
const fn wide_text(argument: Argument) -> Extent {
    Extent::Exactly(Length::Text(argument, WIDE))
}
const fn product(a: Argument, b: Argument) -> Extent {
    Extent::Exactly(Length::Product(a, b))
}
const fn copy(to: Argument, from: Argument, extent: Extent) -> Effect {
    Copy { to, from, extent, manner: Manner::Plain }
}
const fn read(from: Argument, extent: Extent) -> Effect {
    Read { from, extent }
}
const fn write(to: Argument, extent: Extent) -> Effect {
    Write { to, extent }
}
const ANYWHERE: Extent = Extent::Unknown;
/// A word stored through an argument, which may be null.
const POINTER: Extent = Extent::Unknown;

use Returns::{Anything, Heap, Within};
const FIRST: Returns = Returns::Argument(0);

type Row = (&'static [&'static str], &'static [Effect], Returns);

const TABLE: &[Row] = &[
    // Blocks.
    (
        &["memcpy", "memmove", "__memcpy", "__memmove", "__memcpy_chk", "__memmove_chk"],
        &[copy(0, 1, exactly(2, 1))],
        FIRST,
    ),
    (
        &["mempcpy", "__mempcpy", "__mempcpy_chk"],
        &[copy(0, 1, exactly(2, 1))],
        Returns::End(0, Length::Argument(2, 1)),
    ),
    (&["bcopy"], &[copy(1, 0, exactly(2, 1))], Anything),
    (&["memccpy"], &[copy(0, 1, at_most(3, 1))], Within(0)),
    (
        &["memset", "__memset", "__memset_chk"],
        &[Fill { to: 0, value: Some(1), extent: exactly(2, 1) }],
        FIRST,
    ),
    (
        &["bzero", "__bzero", "explicit_bzero", "__explicit_bzero_chk"],
        &[Fill { to: 0, value: None, extent: exactly(1, 1) }],
        Anything,
    ),
    (&["memcmp", "bcmp"], &[read(0, exactly(2, 1)), read(1, exactly(2, 1))], Anything),
    (&["memchr", "memrchr"], &[read(0, at_most(2, 1))], Within(0)),
    (&["rawmemchr"], &[read(0, ANYWHERE)], Within(0)),
    (&["memmem"], &[read(0, exactly(1, 1)), read(2, exactly(3, 1))], Within(0)),
    // Strings.
    (&["strcpy", "__strcpy_chk"], &[copy(0, 1, text(1))], FIRST),
    (&["stpcpy", "__stpcpy", "__stpcpy_chk"], &[copy(0, 1, text(1))], Within(0)),
    (&["strncpy", "__strncpy_chk"], &[copy(0, 1, exactly(2, 1))], FIRST),
    (&["stpncpy", "__stpncpy", "__stpncpy_chk"], &[copy(0, 1, exactly(2, 1))], Within(0)),
    (&["strlcpy", "__strlcpy_chk"], &[copy(0, 1, at_most(2, 1))], Anything),
    (&["strlcat", "__strlcat_chk"], &[Append { to: 0, from: 1 }], Anything),
    (&["strcat", "strncat", "__strcat_chk", "__strncat_chk"], &[Append { to: 0, from: 1 }], FIRST),
    (&["strlen"], &[read(0, text(0))], Anything),
    (&["strnlen"], &[read(0, at_most(1, 1))], Anything),
    (&["strcmp", "strcasecmp", "strcoll"], &[read(0, ANYWHERE), read(1, ANYWHERE)], Anything),
    (&["strncmp", "strncasecmp"], &[read(0, at_most(2, 1)), read(1, at_most(2, 1))], Anything),
    (&["strspn", "strcspn"], &[read(0, ANYWHERE), read(1, ANYWHERE)], Anything),
    (&["strchr", "index", "strchrnul", "strrchr", "rindex"], &[read(0, text(0))], Within(0)),
    (&["strstr", "strcasestr", "strpbrk"], &[read(0, ANYWHERE), read(1, ANYWHERE)], Within(0)),
    (&["strdup", "__strdup"], &[read(0, text(0))], Heap),
    (&["strndup", "__strndup"], &[read(0, at_most(1, 1))], Heap),
    (&["strtok"], &[write(0, ANYWHERE), read(1, text(1))], Within(0)),
    (&["strtok_r", "__strtok_r"], &[write(0, ANYWHERE), read(1, text(1)), write(2, bytes(8))], Within(0)),
    (&["strsep"], &[WriteThrough { list: 0 }, write(0, bytes(8)), read(1, text(1))], Anything),
    // Numbers.
    (
        &[
            "strtol",
            "strtoll",
            "strtoul",
            "strtoull",
            "strtoimax",
            "strtoumax",
            "__isoc23_strtol",
            "__isoc23_strtoll",
            "__isoc23_strtoul",
            "__isoc23_strtoull",
            "__isoc23_strtoimax",
            "__isoc23_strtoumax",
            "strtod",
            "strtof",
            "strtold",
            "wcstol",
            "wcstoll",
            "wcstoul",
            "wcstoull",
            "wcstod",
            "wcstof",
            "__isoc23_wcstol",
            "__isoc23_wcstoul",
        ],
        &[read(0, ANYWHERE), write(1, POINTER)],
        Anything,
    ),
    (&["atoi", "atol", "atoll", "atof"], &[read(0, ANYWHERE)], Anything),
    // Sorting; the comparison function gets pointers into the array.
    (&["qsort", "qsort_r"], &[write(0, product(1, 2))], Anything),
    (&["bsearch"], &[read(0, ANYWHERE), read(1, product(2, 3))], Within(1)),
    (&["lsearch"], &[write(1, ANYWHERE), write(2, bytes(8))], Within(1)),
    (&["lfind"], &[read(1, ANYWHERE), read(2, bytes(8))], Within(1)),
    // Formatted output.
    (&["sprintf", "vsprintf"], &[write(0, text(0)), read(1, text(1))], Anything),
    (&["__sprintf_chk", "__vsprintf_chk"], &[write(0, text(0)), read(3, text(3))], Anything),
    (&["snprintf", "vsnprintf"], &[write(0, at_most(1, 1)), read(2, text(2))], Anything),
    (&["__snprintf_chk", "__vsnprintf_chk"], &[write(0, at_most(1, 1)), read(4, text(4))], Anything),
    (&["swprintf", "vswprintf"], &[write(0, at_most(1, WIDE)), read(2, wide_text(2))], Anything),
    (&["asprintf", "vasprintf"], &[write(0, bytes(8)), read(1, text(1))], Anything),
    (&["printf", "vprintf"], &[read(0, text(0))], Anything),
    (
        &["fprintf", "vfprintf", "dprintf", "vdprintf", "__printf_chk", "__vprintf_chk"],
        &[read(1, text(1))],
        Anything,
    ),
    (&["__fprintf_chk", "__vfprintf_chk", "__dprintf_chk", "__vdprintf_chk"], &[read(2, text(2))], Anything),
    // Formatted input: every argument after the format is written.
    (
        &["sscanf", "__isoc99_sscanf", "__isoc23_sscanf", "fscanf", "__isoc99_fscanf", "__isoc23_fscanf"],
        &[
            read(1, text(1)),
            write(2, ANYWHERE),
            write(3, ANYWHERE),
            write(4, ANYWHERE),
            write(5, ANYWHERE),
            write(6, ANYWHERE),
            write(7, ANYWHERE),
            write(8, ANYWHERE),
            write(9, ANYWHERE),
        ],
        Anything,
    ),
    (
        &["scanf", "__isoc99_scanf", "__isoc23_scanf"],
        &[
            read(0, text(0)),
            write(1, ANYWHERE),
            write(2, ANYWHERE),
            write(3, ANYWHERE),
            write(4, ANYWHERE),
            write(5, ANYWHERE),
            write(6, ANYWHERE),
            write(7, ANYWHERE),
            write(8, ANYWHERE),
        ],
        Anything,
    ),
    (
        &[
            "vsscanf",
            "__isoc99_vsscanf",
            "__isoc23_vsscanf",
            "vfscanf",
            "__isoc99_vfscanf",
            "__isoc23_vfscanf",
        ],
        &[read(1, text(1)), WriteAnywhere],
        Anything,
    ),
    // Input and output.
    (
        &["read", "__read_chk", "pread", "pread64", "__pread_chk", "__pread64_chk"],
        &[write(1, at_most(2, 1))],
        Anything,
    ),
    (&["recv", "__recv_chk"], &[write(1, at_most(2, 1))], Anything),
    (
        &["recvfrom", "__recvfrom_chk"],
        &[write(1, at_most(2, 1)), write(4, ANYWHERE), write(5, POINTER)],
        Anything,
    ),
    (&["readv", "preadv", "preadv2", "recvmsg"], &[WriteAnywhere], Anything),
    (&["write", "pwrite", "pwrite64", "send", "sendto"], &[read(1, exactly(2, 1))], Anything),
    (&["writev", "pwritev", "pwritev2", "sendmsg"], &[read(1, ANYWHERE)], Anything),
    (&["fread", "fread_unlocked"], &[write(0, Extent::AtMost(Length::Product(1, 2)))], Anything),
    (&["__fread_chk"], &[write(0, Extent::AtMost(Length::Product(2, 3)))], Anything),
    (&["fwrite", "fwrite_unlocked"], &[read(0, product(1, 2))], Anything),
    (&["fgets", "fgets_unlocked"], &[write(0, at_most(1, 1))], FIRST),
    (&["__fgets_chk"], &[write(0, at_most(2, 1))], FIRST),
    (&["getline"], &[WriteThrough { list: 0 }, write(0, bytes(8)), write(1, bytes(8))], Anything),
    (
        &["getdelim", "__getdelim"],
        &[WriteThrough { list: 0 }, write(0, bytes(8)), write(1, bytes(8))],
        Anything,
    ),
    (&["fputs", "puts", "perror"], &[read(0, text(0))], Anything),
    (&["getrandom"], &[write(0, at_most(1, 1))], Anything),
    (&["getentropy"], &[write(0, exactly(1, 1))], Anything),
    // The system. Sizes are those of glibc on x86-64.
    (&["time"], &[write(0, POINTER)], Anything),
    (&["gettimeofday"], &[write(0, bytes(16)), write(1, POINTER)], Anything),
    (&["clock_gettime", "clock_getres", "timespec_get"], &[write(1, bytes(16))], Anything),
    (&["getrusage"], &[write(1, bytes(144))], Anything),
    (&["sysinfo"], &[write(0, bytes(112))], Anything),
    (&["setitimer"], &[read(1, bytes(32)), write(2, POINTER)], Anything),
    (&["timer_settime"], &[read(2, bytes(32)), write(3, POINTER)], Anything),
    (&["posix_spawn", "posix_spawnp"], &[write(0, POINTER)], Anything),
    (&["getloadavg"], &[write(0, at_most(1, 8))], Anything),
    // File names may be anywhere.
    (&["stat", "stat64", "lstat", "lstat64"], &[read(0, text(0)), write(1, bytes(144))], Anything),
    (&["fstatat", "fstatat64"], &[read(1, text(1)), write(2, bytes(144))], Anything),
    (&["statx"], &[read(1, text(1)), write(4, bytes(256))], Anything),
    // Random numbers with caller-provided state.
    (&["random_r"], &[WriteThrough { list: 0 }, write(0, ANYWHERE), write(1, bytes(4))], Anything),
    (&["srandom_r"], &[WriteThrough { list: 1 }, write(1, ANYWHERE)], Anything),
    // Queues and trees of the C library.
    (
        &["insque", "remque"],
        &[WriteThrough { list: 0 }, write(0, Extent::AtMost(Length::Constant(16)))],
        Anything,
    ),
    // Wide characters.
    (&["wmemcpy", "wmemmove", "__wmemcpy_chk", "__wmemmove_chk"], &[copy(0, 1, exactly(2, WIDE))], FIRST),
    (
        &["wmempcpy", "__wmempcpy_chk"],
        &[copy(0, 1, exactly(2, WIDE))],
        Returns::End(0, Length::Argument(2, WIDE)),
    ),
    // This is a byte fill only if all bytes of the character are equal.
    (&["wmemset", "__wmemset_chk"], &[write(0, exactly(2, WIDE))], FIRST),
    (&["wmemcmp"], &[read(0, exactly(2, WIDE)), read(1, exactly(2, WIDE))], Anything),
    (&["wmemchr"], &[read(0, at_most(2, WIDE))], Within(0)),
    (&["wcscpy", "__wcscpy_chk"], &[copy(0, 1, wide_text(1))], FIRST),
    (&["wcpcpy", "__wcpcpy_chk"], &[copy(0, 1, wide_text(1))], Within(0)),
    (&["wcsncpy", "__wcsncpy_chk"], &[copy(0, 1, exactly(2, WIDE))], FIRST),
    (&["wcpncpy", "__wcpncpy_chk"], &[copy(0, 1, exactly(2, WIDE))], Within(0)),
    (&["wcscat", "wcsncat", "__wcscat_chk", "__wcsncat_chk"], &[Append { to: 0, from: 1 }], FIRST),
    (&["wcslen"], &[read(0, wide_text(0))], Anything),
    (&["wcsnlen"], &[read(0, at_most(1, WIDE))], Anything),
    (&["wcscmp", "wcscasecmp", "wcscoll"], &[read(0, ANYWHERE), read(1, ANYWHERE)], Anything),
    (&["wcsncmp", "wcsncasecmp"], &[read(0, at_most(2, WIDE)), read(1, at_most(2, WIDE))], Anything),
    (&["wcsspn", "wcscspn"], &[read(0, ANYWHERE), read(1, ANYWHERE)], Anything),
    (&["wcschr", "wcsrchr"], &[read(0, wide_text(0))], Within(0)),
    (&["wcsstr", "wcspbrk"], &[read(0, ANYWHERE), read(1, ANYWHERE)], Within(0)),
    (&["wcsdup"], &[read(0, wide_text(0))], Heap),
    (&["wcstok"], &[write(0, ANYWHERE), read(1, wide_text(1)), write(2, bytes(8))], Within(0)),
    (&["mbsrtowcs"], &[write(0, at_most(2, WIDE)), write(1, bytes(8)), write(3, POINTER)], Anything),
    (&["wcsrtombs"], &[write(0, at_most(2, 1)), write(1, bytes(8)), write(3, POINTER)], Anything),
];

/// The functions that return results through pointers; see `crashproof_protocol::results`.
fn results() -> impl Iterator<Item = (&'static str, Function)> {
    results::TABLE.iter().flat_map(|row| {
        let effects: Vec<Effect> = row.touches.iter().copied().map(effect).collect();
        let returns = match row.returned {
            results::Returned::Anything => Anything,
            results::Returned::Argument(argument) => Returns::Argument(argument),
            results::Returned::Within(argument) => Within(argument),
        };
        // Leaked once: the table lives as long as the process.
        let function = Function { effects: effects.leak(), returns };
        row.names.iter().map(move |name| (*name, function))
    })
}

/// The effect on the memory of one argument.
fn effect(touch: results::Touch) -> Effect {
    use results::{Filled, Size, Touch};
    let length = |argument, size| match size {
        Size::Bytes(bytes) => Some(Length::Constant(bytes.into())),
        Size::Times(count, unit) => Some(Length::Argument(count, unit.into())),
        Size::Text(unit) => Some(Length::Text(argument, unit.into())),
        Size::Family(_) => Some(Length::Constant(16)),
        Size::Counted(_) => None,
    };
    match touch {
        Touch::Read(from, size @ Size::Family(_)) => {
            Read { from, extent: length(from, size).map_or(ANYWHERE, Extent::AtMost) }
        }
        Touch::Read(from, size) => {
            Read { from, extent: length(from, size).map_or(ANYWHERE, Extent::Exactly) }
        }
        Touch::Write(to, size, Filled::All) | Touch::Write(to, size @ Size::Bytes(_), Filled::Changes) => {
            Write { to, extent: length(to, size).map_or(ANYWHERE, Extent::Exactly) }
        }
        Touch::Write(to, size, _) => Write { to, extent: length(to, size).map_or(ANYWHERE, Extent::AtMost) },
    }
}

/// What a function of the C library does, by its symbol.
#[must_use]
pub fn library(name: &str) -> Option<Function> {
    static INDEX: OnceLock<FxHashMap<&'static str, Function>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        let rows = TABLE.iter().flat_map(|&(names, effects, returns)| {
            names.iter().map(move |name| (*name, Function { effects, returns }))
        });
        rows.chain(results()).collect()
    });
    index.get(name).copied()
}

impl Function {
    /// Whether it stores to any memory it is given.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.effects.iter().any(|effect| effect.stores_to().is_some() || *effect == WriteAnywhere)
    }
}

/// All names, so that a test can check that none is listed twice.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|(names, ..)| names.iter().copied()).chain(results().map(|(name, _)| name))
}
