//! Functions of the C library that touch memory and are not followed there: on PM they make the verdict
//! UNKNOWN, by name.
//!
//! Programs seldom use them on PM. Others that are neither here nor interposed are found by what memory holds
//! at the end of the run, if they store, and by strict mode in any case.

use std::ffi::c_int;

use crashproof_protocol::abi::{Site, is_pm};
use crashproof_protocol::{reason, record, untracked};

use crate::files;
use crate::interpose::{interpose, replace};
use crate::recorder::note;

fn untracked(function: u64, site: *const Site) {
    note(record::UNKNOWN, function, reason::FUNCTION, site);
}

/// Functions with at most six arguments, all numbers or pointers, and which registers may point to PM.
macro_rules! untracked {
    ([$a:ident $b:ident $c:ident $d:ident $e:ident $f:ident]
     $($name:ident($($argument:ident = $register:literal),*);)*) => { interpose! { $(
        fn $name($a: usize, $b: usize, $c: usize, $d: usize, $e: usize, $f: usize) -> usize,
            pm($($argument = $register),*), caller(stack)
        |site| {
            untracked(const { untracked::number(stringify!($name)) }, site);
            real($a, $b, $c, $d, $e, $f)
        }
    )* } };
}

untracked! {
    [a b c d e f]
    gmtime_r(a = "rdi", b = "rsi");
    localtime_r(a = "rdi", b = "rsi");
    asctime_r(a = "rdi", b = "rsi");
    ctime_r(a = "rdi", b = "rsi");
    mktime(a = "rdi");
    timegm(a = "rdi");
    strftime(a = "rdi", c = "rdx", d = "rcx");
    strptime(a = "rdi", b = "rsi", c = "rdx");
    getcwd(a = "rdi");
    readlink(a = "rdi", b = "rsi");
    inet_ntop(b = "rsi", c = "rdx");
    inet_pton(b = "rsi", c = "rdx");
    swab(a = "rdi", b = "rsi");
    strxfrm(a = "rdi", b = "rsi");
    gethostname(a = "rdi");
    uname(a = "rdi");
    getrusage(b = "rsi");
    rand_r(a = "rdi");
    random_r(a = "rdi", b = "rsi");
    srandom_r(b = "rsi");
    nrand48(a = "rdi");
    jrand48(a = "rdi");
    lrand48_r(a = "rdi", b = "rsi");
    mrand48_r(a = "rdi", b = "rsi");
    srand48_r(b = "rsi");
    tsearch(a = "rdi", b = "rsi");
    tfind(a = "rdi", b = "rsi");
    tdelete(a = "rdi", b = "rsi");
    lsearch(a = "rdi", b = "rsi", c = "rdx");
    lfind(a = "rdi", b = "rsi", c = "rdx");
    insque(a = "rdi", b = "rsi");
    remque(a = "rdi");
    wcstok(a = "rdi", b = "rsi", c = "rdx");
    wcsxfrm(a = "rdi", b = "rsi");
    mbstowcs(a = "rdi", b = "rsi");
    wcstombs(a = "rdi", b = "rsi");
    mbsrtowcs(a = "rdi", b = "rsi");
    wcsrtombs(a = "rdi", b = "rsi");
    mbrtowc(a = "rdi", b = "rsi");
    mbtowc(a = "rdi", b = "rsi");
    wcrtomb(a = "rdi");
}

/// Is a request for input or output about PM?
unsafe fn concerns_pm(request: *const libc::aiocb) -> bool {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        is_pm(request as u64)
            || !request.is_null()
                && (is_pm((*request).aio_buf as u64) || files::of((*request).aio_fildes).is_some())
    }
}

// The kernel, or another thread, reads and writes the buffer some time later.
replace! { [aio_read aio_read64] {
    (request: *mut libc::aiocb) -> c_int, caller(rsi)
    |site| {
        if concerns_pm(request) { untracked(const { untracked::number("aio_read") }, site); }
        real(request)
    }
} }

replace! { [aio_write aio_write64] {
    (request: *mut libc::aiocb) -> c_int, caller(rsi)
    |site| {
        if concerns_pm(request) { untracked(const { untracked::number("aio_write") }, site); }
        real(request)
    }
} }
