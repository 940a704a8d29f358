//! Functions that return results through pointers, driven by the table in `crashproof_protocol::results`.
//!
//! All of them share one entry point. If an argument is in PM, the real function works on volatile copies of what the
//! table says it reads and writes there; changes to the copies are then stored to PM, attributed to the call. Pointers
//! into the copies, returned or among the results, become pointers to PM.

use std::ffi::c_void;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::results::{Filled, Row, Size, Success, Touch, find};

use super::memory::{readable, text_length, write};
use crate::protection::Opened;
use crate::real::Real;
use crate::session::recording;
use crate::system::KeptErrno;
use crate::{callers, fixed, raw};

/// A function of the table.
#[repr(C)]
struct Followed {
    /// Must be first: assembly reads its address.
    real: Real,
    row: &'static Row,
}

/// A call, as `enter` lays it out.
#[repr(C)]
struct Call {
    /// Integers and pointers: the six registers.
    arguments: [u64; 6],
    /// Floating-point arguments, at most two.
    fractions: [u128; 2],
    followed: *const Followed,
    result: u64,
    fraction: u128,
    /// Copies that stand in for PM during the call; null if there are none.
    copies: *mut Copies,
    caller: usize,
}

/// Copies that stand in for PM during a call.
struct Copies {
    site: *const Site,
    copies: Vec<Copy>,
    _open: Opened,
}

/// A volatile copy of a range of PM.
struct Copy {
    pm: u64,
    bytes: Vec<u8>,
    /// Content before the call, for ranges that are written.
    before: Vec<u8>,
    filled: Option<Filled>,
}

impl Copy {
    /// The PM address for an address in the copy, or just past its end.
    fn original(&self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.bytes.as_ptr() as u64);
        (offset <= self.bytes.len() as u64).then(|| self.pm + offset)
    }
}

impl Copies {
    fn original(&self, address: u64) -> Option<u64> {
        self.copies.iter().find_map(|copy| copy.original(address))
    }
}

/// The size of a range before the call.
unsafe fn size(size: Size, arguments: &[u64; 6], start: u64, site: *const Site) -> usize {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        match size {
            Size::Bytes(bytes) => bytes as usize,
            Size::Times(argument, unit) => {
                (arguments[usize::from(argument)] as usize).saturating_mul(unit as usize)
            }
            Size::Text(1) => text_length(start as *const _, site) + 1,
            Size::Text(unit) => {
                let unit = unit as usize;
                let mut length = 0;
                loop {
                    readable((start as *const u8).add(length), unit, site);
                    if (0..unit).all(|at| raw::byte_at(start as *const u8, length + at) == 0) {
                        return length + unit;
                    }
                    length += unit;
                }
            }
            Size::Counted(argument) => {
                let count = fixed::in_pool(arguments[usize::from(argument)]) as *const u32;
                if count.is_null() {
                    return 0;
                }
                readable(count, 4, site);
                count.read_unaligned() as usize
            }
            Size::Family(argument) => {
                if arguments[usize::from(argument)] as i32 == libc::AF_INET {
                    4
                } else {
                    16
                }
            }
        }
    }
}

/// No function of the table fills a larger buffer, but a program may claim to have one.
const LARGEST: usize = 64 << 20;

unsafe extern "C" fn begin(call: &mut Call) -> *const c_void {
    // SAFETY: the assembly passes the function that was called.
    let followed = unsafe { &*call.followed };
    call.copies = std::ptr::null_mut();
    let real = followed.real.get();
    if !recording() || !call.arguments.iter().any(|argument| fixed::is_persistent(*argument)) {
        return real;
    }
    let site = callers::site(call.caller);
    let mut copies = Copies { site, copies: Vec::new(), _open: Opened::new() };
    let given = call.arguments;
    for touch in followed.row.touches {
        let (argument, range, filled) = match *touch {
            Touch::Read(argument, range) => (argument, range, None),
            Touch::Write(argument, range, filled) => (argument, range, Some(filled)),
        };
        let start = given[usize::from(argument)];
        if !fixed::is_persistent(start) {
            continue;
        }
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        let bytes = unsafe {
            let bytes = size(range, &given, fixed::in_pool(start), site).min(LARGEST);
            let is_read = matches!(filled, None | Some(Filled::Changes));
            if is_read {
                readable(start as *const u8, bytes, site);
            }
            let mut copy = vec![0u8; bytes];
            raw::copy(copy.as_mut_ptr(), fixed::in_pool(start) as *const u8, bytes);
            copy
        };
        let before = if filled.is_some() { bytes.clone() } else { Vec::new() };
        copies.copies.push(Copy { pm: start, bytes, before, filled });
        let last = copies.copies.last().map_or(start, |copy| copy.bytes.as_ptr() as u64);
        call.arguments[usize::from(argument)] = last;
    }
    call.copies = Box::into_raw(Box::new(copies));
    real
}

fn succeeded(success: Success, result: u64) -> bool {
    match success {
        Success::Always => true,
        Success::Zero => result as i32 == 0,
        Success::NonNegative => result as i32 >= 0,
        Success::NonNull => result != 0,
    }
}

/// How much of a copy the function filled.
fn filled(copy: &Copy, filled: Filled, result: u64, count: impl Fn(u8) -> u32) -> usize {
    let room = copy.bytes.len();
    match filled {
        Filled::All => room,
        Filled::Returned(unit) => (result as u32 as usize).saturating_mul(unit as usize).min(room),
        Filled::Text(unit) => {
            let unit = unit as usize;
            let end =
                copy.bytes.chunks_exact(unit).position(|character| character.iter().all(|byte| *byte == 0));
            end.map_or(room, |end| (end + 1) * unit)
        }
        Filled::Counted(argument) => (count(argument) as usize).min(room),
        Filled::Changes => 0,
    }
}

unsafe extern "C" fn finish(call: &mut Call) {
    if call.copies.is_null() {
        return;
    }
    let _errno = KeptErrno::new();
    // SAFETY: made in `begin`; the called function is static.
    let (mut copies, followed) = unsafe { (Box::from_raw(call.copies), &*call.followed) };
    // Pointers among the results.
    let originals: Vec<Vec<(usize, u64)>> =
        copies.copies.iter().map(|copy| pointers(copy, &copies)).collect();
    for (copy, found) in copies.copies.iter_mut().zip(originals) {
        for (at, original) in found {
            copy.bytes[at..at + 8].copy_from_slice(&original.to_ne_bytes());
        }
    }
    let success = succeeded(followed.row.success, call.result);
    let count = |argument: u8| {
        let counted = call.arguments[usize::from(argument)] as *const u32;
        // SAFETY: the function got this pointer, or one to the copy that stands in for it.
        if counted.is_null() { 0 } else { unsafe { counted.read_unaligned() } }
    };
    for copy in &copies.copies {
        let Some(how) = copy.filled else { continue };
        let whole = if success { filled(copy, how, call.result, count) } else { 0 };
        // SAFETY: the program vouches for its pointers, as it would to the C library.
        unsafe { store_changes(copy, whole, copies.site) };
    }
    call.result = copies.original(call.result).unwrap_or(call.result);
}

/// Words written that point into a copy, with the addresses they stand for.
fn pointers(copy: &Copy, copies: &Copies) -> Vec<(usize, u64)> {
    if copy.filled.is_none() {
        return Vec::new();
    }
    let words = copy.bytes.as_chunks::<8>().0.iter().zip(copy.before.as_chunks::<8>().0).enumerate();
    let changed = words.filter(|(_, (now, before))| now != before);
    changed.filter_map(|(at, (now, _))| Some((at * 8, copies.original(u64::from_ne_bytes(*now))?))).collect()
}

/// Stores the leading `whole` bytes of a copy, and whatever else changed.
unsafe fn store_changes(copy: &Copy, whole: usize, site: *const Site) {
    let changed = |at: &usize| *at < whole || copy.bytes[*at] != copy.before[*at];
    let mut at = 0;
    while let Some(first) = (at..copy.bytes.len()).find(changed) {
        // A partly changed word is stored as a whole: no function stores its bytes one by one.
        let start = if first < whole { first } else { (first & !7).max(at) };
        let mut end = first;
        while end < copy.bytes.len() && changed(&end) {
            end = if end < whole { whole } else { ((end & !7) + 8).min(copy.bytes.len()) };
        }
        // SAFETY: as for this function.
        unsafe {
            write((copy.pm + start as u64) as *mut u8, copy.bytes.as_ptr().add(start), end - start, site)
        };
        at = end;
    }
}

/// The entry point of all functions in the table; `r11` holds which.
#[unsafe(naked)]
unsafe extern "C" fn enter() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 144",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "movaps [rsp + 48], xmm0",
        "movaps [rsp + 64], xmm1",
        "mov [rsp + 80], r11",
        "mov rax, [rbp + 8]",
        "mov [rsp + 120], rax",
        "mov rdi, rsp",
        "call {begin}",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "movaps xmm0, [rsp + 48]",
        "movaps xmm1, [rsp + 64]",
        // Stack arguments, as far as any of them looks: two `long double`s.
        "push qword ptr [rbp + 40]",
        "push qword ptr [rbp + 32]",
        "push qword ptr [rbp + 24]",
        "push qword ptr [rbp + 16]",
        "call rax",
        "add rsp, 32",
        "mov [rsp + 88], rax",
        "movaps [rsp + 96], xmm0",
        "mov rdi, rsp",
        // A returned `long double` stays in place: the runtime does no x87 arithmetic.
        "call {finish}",
        "mov rax, [rsp + 88]",
        "movaps xmm0, [rsp + 96]",
        "leave",
        "ret",
        begin = sym begin,
        finish = sym finish,
    )
}

const _: () = {
    assert!(std::mem::offset_of!(Call, fractions) == 48 && std::mem::offset_of!(Call, followed) == 80);
    assert!(std::mem::offset_of!(Call, result) == 88 && std::mem::offset_of!(Call, fraction) == 96);
    assert!(std::mem::offset_of!(Call, caller) == 120 && size_of::<Call>() <= 144);
};

/// Defines entry points for functions of the table. Without PM arguments they cost a few instructions.
macro_rules! follow {
    ($($name:ident)*) => { $(
        const _: () = {
            static FOLLOWED: Followed = Followed {
                real: Real::new(concat!(stringify!($name), "\0"), None),
                row: match find(stringify!($name)) {
                    Some(row) => row,
                    None => panic!("a function that is not in the table"),
                },
            };

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                std::arch::naked_asm!(
                    "mov rax, rdi", "shr rax, 44", "cmp rax, 1", "je 2f",
                    "mov rax, rsi", "shr rax, 44", "cmp rax, 1", "je 2f",
                    "mov rax, rdx", "shr rax, 44", "cmp rax, 1", "je 2f",
                    "mov rax, rcx", "shr rax, 44", "cmp rax, 1", "je 2f",
                    "mov rax, r8", "shr rax, 44", "cmp rax, 1", "je 2f",
                    "mov rax, [rip + {followed}]",
                    "test rax, rax",
                    "je 2f",
                    "jmp rax",
                    "2:",
                    "lea r11, [rip + {followed}]",
                    "jmp {enter}",
                    followed = sym FOLLOWED,
                    enter = sym enter,
                )
            }
        };
    )*
        /// The functions followed here, so that a test can compare them with the table.
        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

follow! {
    gmtime_r localtime_r asctime_r ctime_r gmtime localtime ctime asctime mktime timegm timelocal strftime
    strftime_l wcsftime strptime strptime_l getdate_r clock_getcpuclockid timespec_getres timerfd_gettime timerfd_settime sched_rr_get_interval adjtime
    adjtimex ntp_adjtime ftime statfs statfs64 fstatfs fstatfs64 statvfs statvfs64 fstatvfs
    fstatvfs64 getcwd getwd readlink readlinkat getxattr lgetxattr fgetxattr listxattr llistxattr
    flistxattr getdents64 mkostemps mkostemps64
    mktemp tmpnam tmpnam_r ctermid __xpg_basename dirname basename fgetpos fgetpos64 fsetpos fsetpos64
    pipe pipe2 socketpair openpty eventfd_read tcgetattr tcsetattr cfmakeraw cfsetispeed cfsetospeed
    cfsetspeed ttyname_r ptsname_r getlogin_r getdomainname gethostname uname confstr __xpg_strerror_r
    strerror_r getrlimit getrlimit64 setrlimit setrlimit64 prlimit prlimit64 getgroups getresuid getresgid
    sched_getparam sched_setparam backtrace dladdr getpwnam_r
    getpwuid_r getgrnam_r getgrgid_r sigemptyset sigfillset sigaddset sigdelset sigismember sigisemptyset
    sigorset sigandset sigpending sigaltstack pthread_attr_init
    pthread_attr_destroy pthread_attr_setdetachstate pthread_attr_setguardsize pthread_attr_setstacksize
    pthread_attr_setscope pthread_attr_setinheritsched pthread_attr_setschedpolicy pthread_attr_getdetachstate
    pthread_attr_getscope pthread_attr_getinheritsched pthread_attr_getschedpolicy pthread_attr_getschedparam
    pthread_attr_getguardsize pthread_attr_getstacksize pthread_attr_getstack pthread_getattr_np
    pthread_getschedparam pthread_getname_np pthread_getcpuclockid pthread_key_create tss_create
    pthread_mutexattr_init pthread_condattr_init pthread_barrierattr_init pthread_rwlockattr_init
    pthread_mutexattr_settype pthread_mutexattr_setpshared pthread_mutexattr_setrobust
    pthread_mutexattr_setprotocol pthread_mutexattr_setprioceiling pthread_condattr_setclock
    pthread_condattr_setpshared pthread_barrierattr_setpshared pthread_rwlockattr_setpshared
    pthread_rwlockattr_setkind_np pthread_mutexattr_getpshared pthread_mutexattr_getprotocol
    pthread_mutexattr_getprioceiling pthread_condattr_getclock pthread_condattr_getpshared
    pthread_barrierattr_getpshared pthread_rwlockattr_getpshared pthread_rwlockattr_getkind_np
    inet_ntop inet_pton inet_aton inet_addr inet_network
    inet_net_pton ether_aton_r ether_ntoa_r if_indextoname if_nametoindex getsockname getpeername
    getsockopt getaddrinfo getifaddrs getnameinfo epoll_ctl mq_getattr frexp frexpf frexpl
    lgamma_r lgammaf_r lgammal_r remquo remquof remquol modf modff modfl sincos sincosf sincosl ecvt_r fcvt_r
    gcvt strfromd strfromf strfroml fegetenv feholdexcept fegetexceptflag rand_r nrand48 jrand48
    erand48 seed48 lcong48 drand48_r lrand48_r mrand48_r erand48_r nrand48_r jrand48_r srand48_r seed48_r
    lcong48_r swab memfrob strfry a64l strxfrm strxfrm_l wcsxfrm wcsxfrm_l mbstowcs __mbstowcs_chk wcstombs
    __wcstombs_chk mbrtowc mbrtoc32 mbrtoc16 mbtowc mblen mbrlen mbsinit wcrtomb c16rtomb c32rtomb
    __wcrtomb_chk wctomb __wctomb_chk regexec regcomp regerror hcreate_r tsearch tdelete tfind
}

/// Turns what a function writes through one pointer into stores if that is in PM; for functions interposed anyway.
pub(crate) unsafe fn with_result<T, R>(to: *mut T, site: *const Site, call: impl FnOnce(*mut T) -> R) -> R {
    let to = fixed::in_pool(to as u64) as *mut T;
    if !is_pm(to as u64) {
        return call(to);
    }
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let bytes = size_of::<T>();
        let mut here = std::mem::MaybeUninit::<T>::uninit();
        raw::copy(here.as_mut_ptr().cast(), to.cast_const().cast(), bytes);
        let result = call(here.as_mut_ptr());
        let _errno = KeptErrno::new();
        let changed =
            (0..bytes).any(|at| *here.as_ptr().cast::<u8>().add(at) != raw::byte_at(to.cast::<u8>(), at));
        if changed {
            write(to, here.as_ptr(), bytes, site);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use crashproof_protocol::results::TABLE;

    use super::*;

    #[test]
    fn every_function_of_the_table_is_followed() {
        // Followed elsewhere: files by name in `files` and `status`, waiting in `waiting`, `timers` and `forking`.
        const ELSEWHERE: [&str; 24] = [
            "fstat",
            "fstat64",
            "getitimer",
            "timer_create",
            "timer_gettime",
            "sigwait",
            "sigwaitinfo",
            "sigtimedwait",
            "wait",
            "waitpid",
            "wait3",
            "wait4",
            "waitid",
            "realpath",
            "accept",
            "accept4",
            "epoll_wait",
            "mkostemp",
            "mkostemp64",
            "mkdtemp",
            "mkstemp",
            "mkstemp64",
            "mkstemps",
            "mkstemps64",
        ];
        for name in TABLE.iter().flat_map(|row| row.names).filter(|name| !ELSEWHERE.contains(name)) {
            assert!(NAMES.contains(name), "{name} is in the table and not followed");
        }
    }

    fn copy(before: &[u8], now: &[u8]) -> Copy {
        Copy { pm: 0, bytes: now.to_vec(), before: before.to_vec(), filled: Some(Filled::Changes) }
    }

    #[test]
    fn what_was_filled_is_known_by_its_kind() {
        let text = copy(b"xxxxxx", b"ab\0xxx");
        assert_eq!(filled(&text, Filled::Text(1), 0, |_| 0), 3);
        assert_eq!(filled(&text, Filled::Returned(2), 2, |_| 0), 4);
        assert_eq!(filled(&text, Filled::Returned(1), 99, |_| 0), 6);
        assert_eq!(filled(&text, Filled::Counted(3), 0, u32::from), 3);
        assert_eq!(filled(&text, Filled::All, 0, |_| 0), 6);
    }

    #[test]
    fn pointers_to_copies_stand_for_pm() {
        let mut one = copy(&[0; 16], &[0; 16]);
        one.pm = 1 << 44;
        let inside = one.bytes.as_ptr() as u64 + 5;
        one.bytes[8..].copy_from_slice(&inside.to_ne_bytes());
        let copies = Copies { site: std::ptr::null(), copies: vec![one], _open: Opened::new() };
        assert_eq!(pointers(&copies.copies[0], &copies), vec![(8, (1 << 44) + 5)]);
        assert_eq!(copies.original(inside), Some((1 << 44) + 5));
        assert_eq!(copies.original(7), None);
    }

    #[test]
    fn success_is_known_by_the_result() {
        assert!(succeeded(Success::Zero, 0) && !succeeded(Success::Zero, u64::MAX));
        assert!(succeeded(Success::NonNegative, 3) && !succeeded(Success::NonNegative, u64::MAX));
        assert!(!succeeded(Success::NonNull, 0) && succeeded(Success::Always, 0));
    }
}
