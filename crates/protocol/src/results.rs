//! Functions of the C library that leave results in memory they are given: which argument, how many bytes.
//!
//! One table for two readers. The runtime stands before each of them: what it writes into PM becomes stores. The
//! table of meaning in `frontend` makes effects of the rows, so that lint and prove know the same functions. Sizes are those
//! of glibc on x86-64. Functions that need more than ranges (formats, lists of buffers, callbacks that see the
//! memory) are not here: the runtime has a body for each.

/// The position of an argument among those that are integers or pointers.
pub type Argument = u8;

/// A number of bytes, in terms of the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Always as many.
    Bytes(u32),
    /// This argument, times a constant.
    Times(Argument, u32),
    /// A string at the same pointer, with its terminator; each character has this many bytes.
    Text(u32),
    /// What the `socklen_t` behind this argument says before the call.
    Counted(Argument),
    /// An address of the family that this argument says: 4 bytes for `AF_INET`, else 16.
    Family(Argument),
}

/// How much of its room a function fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// All of it.
    All,
    /// As many units of this many bytes as it returns.
    Returned(u32),
    /// A string with its terminator; each character has this many bytes.
    Text(u32),
    /// What the `socklen_t` behind this argument says after the call.
    Counted(Argument),
    /// Whatever changes; for what is updated in place.
    Changes,
}

/// What a function does to the memory behind one of its arguments, if it is not null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Reads it.
    Read(Argument, Size),
    /// Writes to it.
    Write(Argument, Size, Filled),
}

/// Which results mean that the function did its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Success {
    /// Any.
    Always,
    /// Zero.
    Zero,
    /// What is not negative, as a number of 32 bits, or of 64.
    NonNegative,
    /// What is not null.
    NonNull,
}

/// What a function returns, if it is a pointer to memory it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    /// Something else.
    Anything,
    /// An argument, or null.
    Argument(Argument),
    /// A pointer into the memory behind an argument, or null.
    Within(Argument),
}

/// What some functions do.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Their symbols.
    pub names: &'static [&'static str],
    /// What they do to memory.
    pub touches: &'static [Touch],
    /// When they did it.
    pub success: Success,
    /// What they return.
    pub returned: Returned,
}

use Filled::{All, Changes};
use Returned::Anything;
use Size::{Bytes, Counted, Times};
use Success::{Always, NonNegative, NonNull, Zero};
use Touch::{Read, Write};

const TEXT: Size = Size::Text(1);
const WIDE: u32 = 4;
/// The longest name of a file, with its terminator.
const PATH: Size = Bytes(4096);
const TIME: Size = Bytes(8);
const TIMESPEC: Size = Bytes(16);
const BROKEN_DOWN: Size = Bytes(56);
const STATUS: Size = Bytes(144);
const SIGNALS: Size = Bytes(128);
const STATE: Size = Bytes(8);

const fn text(argument: Argument) -> Touch {
    Read(argument, TEXT)
}
const fn all(argument: Argument, size: u32) -> Touch {
    Write(argument, Bytes(size), All)
}
const fn update(argument: Argument, size: u32) -> Touch {
    Write(argument, Bytes(size), Changes)
}
const fn string(argument: Argument, room: Argument) -> Touch {
    Write(argument, Times(room, 1), Filled::Text(1))
}
const fn returned(argument: Argument, room: Argument, unit: u32) -> Touch {
    Write(argument, Times(room, unit), Filled::Returned(unit))
}

const fn row(
    names: &'static [&'static str],
    touches: &'static [Touch],
    success: Success,
    returned: Returned,
) -> Row {
    Row { names, touches, success, returned }
}

/// All of them.
pub const TABLE: &[Row] = &[
    // Time.
    row(&["gmtime_r", "localtime_r"], &[Read(0, TIME), all(1, 56)], NonNull, Returned::Argument(1)),
    row(
        &["asctime_r"],
        &[Read(0, BROKEN_DOWN), Write(1, Bytes(26), Filled::Text(1))],
        NonNull,
        Returned::Argument(1),
    ),
    row(&["ctime_r"], &[Read(0, TIME), Write(1, Bytes(26), Filled::Text(1))], NonNull, Returned::Argument(1)),
    row(&["gmtime", "localtime", "ctime"], &[Read(0, TIME)], NonNull, Anything),
    row(&["asctime"], &[Read(0, BROKEN_DOWN)], NonNull, Anything),
    row(&["mktime", "timegm", "timelocal"], &[update(0, 56)], Always, Anything),
    row(&["strftime", "strftime_l"], &[string(0, 1), text(2), Read(3, BROKEN_DOWN)], Always, Anything),
    row(
        &["wcsftime"],
        &[Write(0, Times(1, WIDE), Filled::Text(WIDE)), Read(2, Size::Text(WIDE)), Read(3, BROKEN_DOWN)],
        Always,
        Anything,
    ),
    row(&["strptime", "strptime_l"], &[text(0), text(1), update(2, 56)], NonNull, Returned::Within(0)),
    row(&["getdate_r"], &[text(0), update(1, 56)], Zero, Anything),
    row(&["clock_getcpuclockid"], &[all(1, 4)], Zero, Anything),
    row(&["timespec_getres"], &[all(0, 16)], Always, Anything),
    row(&["getitimer"], &[all(1, 32)], Zero, Anything),
    row(&["timer_create"], &[all(2, 8)], Zero, Anything),
    row(&["timer_gettime", "timerfd_gettime"], &[all(1, 32)], Zero, Anything),
    row(&["timerfd_settime"], &[Read(2, Bytes(32)), all(3, 32)], Zero, Anything),
    row(&["sched_rr_get_interval"], &[all(1, 16)], Zero, Anything),
    row(&["adjtime"], &[Read(0, TIMESPEC), all(1, 16)], Zero, Anything),
    row(&["adjtimex", "ntp_adjtime"], &[update(0, 208)], NonNegative, Anything),
    row(&["ftime"], &[all(0, 16)], Always, Anything),
    // Files and directories.
    row(&["fstat", "fstat64"], &[Write(1, STATUS, All)], Zero, Anything),
    row(&["statfs", "statfs64"], &[text(0), all(1, 120)], Zero, Anything),
    row(&["fstatfs", "fstatfs64"], &[all(1, 120)], Zero, Anything),
    row(&["statvfs", "statvfs64"], &[text(0), all(1, 112)], Zero, Anything),
    row(&["fstatvfs", "fstatvfs64"], &[all(1, 112)], Zero, Anything),
    row(&["getcwd"], &[string(0, 1)], NonNull, Returned::Argument(0)),
    row(&["getwd"], &[Write(0, PATH, Filled::Text(1))], NonNull, Returned::Argument(0)),
    row(&["realpath"], &[text(0), Write(1, PATH, Filled::Text(1))], NonNull, Returned::Argument(1)),
    row(&["readlink"], &[text(0), returned(1, 2, 1)], NonNegative, Anything),
    row(&["readlinkat"], &[text(1), returned(2, 3, 1)], NonNegative, Anything),
    row(&["getxattr", "lgetxattr"], &[text(0), text(1), returned(2, 3, 1)], NonNegative, Anything),
    row(&["fgetxattr"], &[text(1), returned(2, 3, 1)], NonNegative, Anything),
    row(&["listxattr", "llistxattr"], &[text(0), returned(1, 2, 1)], NonNegative, Anything),
    row(&["flistxattr"], &[returned(1, 2, 1)], NonNegative, Anything),
    row(&["getdents64"], &[returned(1, 2, 1)], NonNegative, Anything),
    row(&["mkstemp", "mkstemp64", "mkstemps", "mkstemps64"], &[Write(0, TEXT, Changes)], Always, Anything),
    row(
        &["mkostemp", "mkostemp64", "mkostemps", "mkostemps64"],
        &[Write(0, TEXT, Changes)],
        Always,
        Anything,
    ),
    row(&["mkdtemp", "mktemp"], &[Write(0, TEXT, Changes)], Always, Returned::Argument(0)),
    row(&["tmpnam", "tmpnam_r"], &[Write(0, Bytes(20), Filled::Text(1))], NonNull, Returned::Argument(0)),
    row(&["ctermid"], &[Write(0, Bytes(9), Filled::Text(1))], NonNull, Returned::Argument(0)),
    row(&["__xpg_basename", "dirname"], &[Write(0, TEXT, Changes)], Always, Returned::Within(0)),
    row(&["basename"], &[text(0)], Always, Returned::Within(0)),
    row(&["fgetpos", "fgetpos64"], &[all(1, 16)], Zero, Anything),
    row(&["fsetpos", "fsetpos64"], &[Read(1, Bytes(16))], Zero, Anything),
    row(&["pipe", "pipe2"], &[all(0, 8)], Zero, Anything),
    row(&["socketpair"], &[all(3, 8)], Zero, Anything),
    row(&["openpty"], &[all(0, 4), all(1, 4)], Zero, Anything),
    row(&["eventfd_read"], &[all(1, 8)], Zero, Anything),
    // Terminals and names.
    row(&["tcgetattr"], &[all(1, 60)], Zero, Anything),
    row(&["tcsetattr"], &[Read(2, Bytes(60))], Zero, Anything),
    row(&["cfmakeraw"], &[update(0, 60)], Always, Anything),
    row(&["cfsetispeed", "cfsetospeed", "cfsetspeed"], &[update(0, 60)], Always, Anything),
    row(&["ttyname_r", "ptsname_r"], &[string(1, 2)], Zero, Anything),
    row(&["getlogin_r", "getdomainname"], &[string(0, 1)], Zero, Anything),
    row(&["gethostname"], &[Write(0, Times(1, 1), Changes)], Zero, Anything),
    row(&["uname"], &[all(0, 390)], Zero, Anything),
    row(&["confstr"], &[string(1, 2)], Always, Anything),
    row(&["__xpg_strerror_r"], &[string(1, 2)], Always, Anything),
    row(&["strerror_r"], &[Write(1, Times(2, 1), Changes)], Always, Returned::Within(1)),
    // The process and its limits.
    row(&["getrlimit", "getrlimit64"], &[all(1, 16)], Zero, Anything),
    row(&["setrlimit", "setrlimit64"], &[Read(1, Bytes(16))], Zero, Anything),
    row(&["prlimit", "prlimit64"], &[Read(2, Bytes(16)), all(3, 16)], Zero, Anything),
    row(&["getgroups"], &[returned(1, 0, 4)], NonNegative, Anything),
    row(&["getresuid", "getresgid"], &[all(0, 4), all(1, 4), all(2, 4)], Zero, Anything),
    row(&["wait"], &[update(0, 4)], NonNegative, Anything),
    row(&["waitpid"], &[update(1, 4)], NonNegative, Anything),
    row(&["wait3"], &[update(0, 4), update(2, 144)], NonNegative, Anything),
    row(&["wait4"], &[update(1, 4), update(3, 144)], NonNegative, Anything),
    row(&["waitid"], &[update(2, 128)], Zero, Anything),
    row(&["sched_getparam"], &[all(1, 4)], Zero, Anything),
    row(&["sched_setparam"], &[Read(1, Bytes(4))], Zero, Anything),
    row(&["backtrace"], &[returned(0, 1, 8)], NonNegative, Anything),
    row(&["dladdr"], &[all(1, 32)], Always, Anything),
    row(&["getpwnam_r"], &[text(0), all(1, 48), Write(2, Times(3, 1), Changes), all(4, 8)], Always, Anything),
    row(&["getpwuid_r"], &[all(1, 48), Write(2, Times(3, 1), Changes), all(4, 8)], Always, Anything),
    row(&["getgrnam_r"], &[text(0), all(1, 32), Write(2, Times(3, 1), Changes), all(4, 8)], Always, Anything),
    row(&["getgrgid_r"], &[all(1, 32), Write(2, Times(3, 1), Changes), all(4, 8)], Always, Anything),
    // Signals.
    row(&["sigemptyset", "sigfillset"], &[Write(0, SIGNALS, All)], Zero, Anything),
    row(&["sigaddset", "sigdelset"], &[Write(0, SIGNALS, Changes)], Zero, Anything),
    row(&["sigismember", "sigisemptyset"], &[Read(0, SIGNALS)], Always, Anything),
    row(&["sigorset", "sigandset"], &[Read(1, SIGNALS), Read(2, SIGNALS), all(0, 128)], Zero, Anything),
    row(&["sigpending"], &[Write(0, SIGNALS, All)], Zero, Anything),
    row(&["sigwait"], &[Read(0, SIGNALS), all(1, 4)], Zero, Anything),
    row(&["sigwaitinfo"], &[Read(0, SIGNALS), all(1, 128)], NonNegative, Anything),
    row(&["sigtimedwait"], &[Read(0, SIGNALS), all(1, 128), Read(2, TIMESPEC)], NonNegative, Anything),
    row(&["sigaltstack"], &[Read(0, Bytes(24)), all(1, 24)], Zero, Anything),
    // Attributes of threads and locks.
    row(&["pthread_attr_init", "pthread_attr_destroy"], &[Write(0, Bytes(56), Changes)], Zero, Anything),
    row(
        &[
            "pthread_attr_setdetachstate",
            "pthread_attr_setguardsize",
            "pthread_attr_setstacksize",
            "pthread_attr_setscope",
            "pthread_attr_setinheritsched",
            "pthread_attr_setschedpolicy",
        ],
        &[update(0, 56)],
        Zero,
        Anything,
    ),
    row(
        &[
            "pthread_attr_getdetachstate",
            "pthread_attr_getscope",
            "pthread_attr_getinheritsched",
            "pthread_attr_getschedpolicy",
            "pthread_attr_getschedparam",
        ],
        &[Read(0, Bytes(56)), all(1, 4)],
        Zero,
        Anything,
    ),
    row(
        &["pthread_attr_getguardsize", "pthread_attr_getstacksize"],
        &[Read(0, Bytes(56)), all(1, 8)],
        Zero,
        Anything,
    ),
    row(&["pthread_attr_getstack"], &[Read(0, Bytes(56)), all(1, 8), all(2, 8)], Zero, Anything),
    row(&["pthread_getattr_np"], &[Write(1, Bytes(56), Changes)], Zero, Anything),
    row(&["pthread_getschedparam"], &[all(1, 4), all(2, 4)], Zero, Anything),
    row(&["pthread_getname_np"], &[string(1, 2)], Zero, Anything),
    row(&["pthread_getcpuclockid"], &[all(1, 4)], Zero, Anything),
    row(&["pthread_key_create", "tss_create"], &[all(0, 4)], Zero, Anything),
    row(
        &["pthread_mutexattr_init", "pthread_condattr_init", "pthread_barrierattr_init"],
        &[all(0, 4)],
        Zero,
        Anything,
    ),
    row(&["pthread_rwlockattr_init"], &[all(0, 8)], Zero, Anything),
    row(
        &[
            "pthread_mutexattr_settype",
            "pthread_mutexattr_setpshared",
            "pthread_mutexattr_setrobust",
            "pthread_mutexattr_setprotocol",
            "pthread_mutexattr_setprioceiling",
            "pthread_condattr_setclock",
            "pthread_condattr_setpshared",
            "pthread_barrierattr_setpshared",
        ],
        &[update(0, 4)],
        Zero,
        Anything,
    ),
    row(&["pthread_rwlockattr_setpshared", "pthread_rwlockattr_setkind_np"], &[update(0, 8)], Zero, Anything),
    row(
        &[
            "pthread_mutexattr_getpshared",
            "pthread_mutexattr_getprotocol",
            "pthread_mutexattr_getprioceiling",
            "pthread_condattr_getclock",
            "pthread_condattr_getpshared",
            "pthread_barrierattr_getpshared",
        ],
        &[Read(0, Bytes(4)), all(1, 4)],
        Zero,
        Anything,
    ),
    row(
        &["pthread_rwlockattr_getpshared", "pthread_rwlockattr_getkind_np"],
        &[Read(0, Bytes(8)), all(1, 4)],
        Zero,
        Anything,
    ),
    // Networks.
    row(&["inet_ntop"], &[Read(1, Size::Family(0)), string(2, 3)], NonNull, Returned::Argument(2)),
    row(&["inet_pton"], &[text(1), Write(2, Size::Family(0), Changes)], Always, Anything),
    row(&["inet_aton"], &[text(0), all(1, 4)], Always, Anything),
    row(&["inet_addr", "inet_network"], &[text(0)], Always, Anything),
    row(&["inet_net_pton"], &[text(1), Write(2, Times(3, 1), Changes)], NonNegative, Anything),
    row(&["ether_aton_r"], &[text(0), all(1, 6)], NonNull, Returned::Argument(1)),
    row(
        &["ether_ntoa_r"],
        &[Read(0, Bytes(6)), Write(1, Bytes(18), Filled::Text(1))],
        NonNull,
        Returned::Argument(1),
    ),
    row(&["if_indextoname"], &[Write(1, Bytes(16), Filled::Text(1))], NonNull, Returned::Argument(1)),
    row(&["if_nametoindex"], &[text(0)], Always, Anything),
    row(
        &["getsockname", "getpeername", "accept", "accept4"],
        &[Write(1, Counted(2), Filled::Counted(2)), update(2, 4)],
        NonNegative,
        Anything,
    ),
    row(&["getsockopt"], &[Write(3, Counted(4), Filled::Counted(4)), update(4, 4)], Zero, Anything),
    row(&["getaddrinfo"], &[text(0), text(1), Read(2, Bytes(48)), all(3, 8)], Zero, Anything),
    row(&["getifaddrs"], &[all(0, 8)], Zero, Anything),
    row(&["getnameinfo"], &[Read(0, Times(1, 1)), string(2, 3), string(4, 5)], Zero, Anything),
    row(&["epoll_wait"], &[returned(1, 2, 12)], NonNegative, Anything),
    row(&["epoll_ctl"], &[Read(3, Bytes(12))], Zero, Anything),
    row(&["mq_getattr"], &[all(1, 64)], Zero, Anything),
    // Numbers.
    row(&["frexp", "frexpf", "frexpl", "lgamma_r", "lgammaf_r", "lgammal_r"], &[all(0, 4)], Always, Anything),
    row(&["remquo", "remquof", "remquol"], &[all(0, 4)], Always, Anything),
    row(&["modf"], &[all(0, 8)], Always, Anything),
    row(&["modff"], &[all(0, 4)], Always, Anything),
    row(&["modfl"], &[all(0, 10)], Always, Anything),
    row(&["sincos"], &[all(0, 8), all(1, 8)], Always, Anything),
    row(&["sincosf"], &[all(0, 4), all(1, 4)], Always, Anything),
    row(&["sincosl"], &[all(0, 10), all(1, 10)], Always, Anything),
    row(&["ecvt_r", "fcvt_r"], &[all(1, 4), all(2, 4), string(3, 4)], Zero, Anything),
    row(&["gcvt"], &[Write(1, Bytes(32), Filled::Text(1))], Always, Returned::Argument(1)),
    row(&["strfromd", "strfromf", "strfroml"], &[string(0, 1), text(2)], Always, Anything),
    row(&["fegetenv", "feholdexcept"], &[all(0, 32)], Zero, Anything),
    row(&["fegetexceptflag"], &[all(0, 2)], Zero, Anything),
    // Random numbers with a state of the caller's.
    row(&["rand_r"], &[update(0, 4)], Always, Anything),
    row(&["nrand48", "jrand48", "erand48"], &[update(0, 6)], Always, Anything),
    row(&["seed48"], &[Read(0, Bytes(6))], Always, Anything),
    row(&["lcong48"], &[Read(0, Bytes(14))], Always, Anything),
    row(&["drand48_r", "lrand48_r", "mrand48_r"], &[update(0, 24), all(1, 8)], Zero, Anything),
    row(&["erand48_r", "nrand48_r", "jrand48_r"], &[update(0, 6), update(1, 24), all(2, 8)], Zero, Anything),
    row(&["srand48_r"], &[Write(1, Bytes(24), Changes)], Zero, Anything),
    row(&["seed48_r"], &[Read(0, Bytes(6)), Write(1, Bytes(24), Changes)], Zero, Anything),
    row(&["lcong48_r"], &[Read(0, Bytes(14)), Write(1, Bytes(24), Changes)], Zero, Anything),
    // Characters.
    row(&["swab"], &[Read(0, Times(2, 1)), Write(1, Times(2, 1), Changes)], Always, Anything),
    row(&["memfrob"], &[Write(0, Times(1, 1), Changes)], Always, Returned::Argument(0)),
    row(&["strfry"], &[Write(0, TEXT, Changes)], Always, Returned::Argument(0)),
    row(&["a64l"], &[text(0)], Always, Anything),
    row(&["strxfrm", "strxfrm_l"], &[string(0, 2), text(1)], Always, Anything),
    row(
        &["wcsxfrm", "wcsxfrm_l"],
        &[Write(0, Times(2, WIDE), Filled::Text(WIDE)), Read(1, Size::Text(WIDE))],
        Always,
        Anything,
    ),
    row(&["mbstowcs"], &[Write(0, Times(2, WIDE), Changes), text(1)], Always, Anything),
    row(&["__mbstowcs_chk"], &[Write(0, Times(2, WIDE), Changes), text(1)], Always, Anything),
    row(&["wcstombs"], &[Write(0, Times(2, 1), Changes), Read(1, Size::Text(WIDE))], Always, Anything),
    row(&["__wcstombs_chk"], &[Write(0, Times(2, 1), Changes), Read(1, Size::Text(WIDE))], Always, Anything),
    row(
        &["mbrtowc", "mbrtoc32"],
        &[Write(0, Bytes(WIDE), Changes), Read(1, Times(2, 1)), Write(3, STATE, Changes)],
        Always,
        Anything,
    ),
    row(
        &["mbrtoc16"],
        &[Write(0, Bytes(2), Changes), Read(1, Times(2, 1)), Write(3, STATE, Changes)],
        Always,
        Anything,
    ),
    row(&["mbtowc"], &[Write(0, Bytes(WIDE), Changes), Read(1, Times(2, 1))], Always, Anything),
    row(&["mblen"], &[Read(0, Times(1, 1))], Always, Anything),
    row(&["mbrlen"], &[Read(0, Times(1, 1)), Write(2, STATE, Changes)], Always, Anything),
    row(&["mbsinit"], &[Read(0, STATE)], Always, Anything),
    row(
        &["wcrtomb", "c16rtomb", "c32rtomb", "__wcrtomb_chk"],
        &[Write(0, Bytes(6), Filled::Returned(1)), Write(2, STATE, Changes)],
        NonNegative,
        Anything,
    ),
    row(&["wctomb", "__wctomb_chk"], &[Write(0, Bytes(6), Filled::Returned(1))], NonNegative, Anything),
    row(&["regexec"], &[Read(0, Bytes(64)), text(1), Write(3, Times(2, 8), Changes)], Always, Anything),
    row(&["regcomp"], &[Write(0, Bytes(64), Changes), text(1)], Always, Anything),
    row(&["regerror"], &[string(2, 3)], Always, Anything),
    row(&["hcreate_r"], &[update(1, 16)], Always, Anything),
    // Trees of the C library: its nodes are volatile, the root is the program's.
    row(&["tsearch", "tdelete"], &[update(1, 8)], Always, Anything),
    row(&["tfind"], &[Read(1, Bytes(8))], Always, Anything),
];

/// What a function does, by its symbol; for constants.
#[must_use]
pub const fn find(name: &str) -> Option<&'static Row> {
    let mut index = 0;
    while index < TABLE.len() {
        let row = &TABLE[index];
        let mut at = 0;
        while at < row.names.len() {
            if same(row.names[at].as_bytes(), name.as_bytes()) {
                return Some(row);
            }
            at += 1;
        }
        index += 1;
    }
    None
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name() {
        assert!(find("gmtime_r").is_some_and(|row| row.touches.len() == 2));
        assert!(find("gmtime").is_some_and(|row| row.names.contains(&"ctime")));
        assert!(find("gmtime_").is_none());
    }

    #[test]
    fn no_function_is_listed_twice() {
        let mut names: Vec<_> = TABLE.iter().flat_map(|row| row.names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
