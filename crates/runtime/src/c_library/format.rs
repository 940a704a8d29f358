//! The `printf` and `scanf` families, where they read strings from PM or write to PM.
//!
//! `%s` arguments in PM are made ready for reading before the C library formats. Output to PM, formatted or scanned,
//! goes to volatile memory first and is stored from there. `conversions` parses the formats.
//!
//! Rust cannot define variadic functions, so each starts in assembly, which lays the arguments out as a `va_list` and
//! calls the `v` variant of the function.

use std::ffi::{c_char, c_int, c_void};

use crashproof_protocol::abi::Site;

use super::heap;
use super::memory::{text_length, text_length_within, write};
use super::results::with_result;
use crate::conversions::{Argument, Written, printed, scanned};
use crate::interpose::enter;
use crate::protection::Opened;
use crate::real::Real;
use crate::session::recording;
use crate::{callers, files, fixed, raw};

/// `va_list` of x86-64.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    general_offset: u32,
    vector_offset: u32,
    overflow: *const u64,
    saved: *const u8,
}

/// Taking an argument requires that the list has it.
impl Arguments {
    /// The next integer or pointer.
    unsafe fn general(&mut self) -> u64 {
        // SAFETY: there is one.
        unsafe { self.general_place().read() }
    }

    /// Where the next integer or pointer is.
    fn general_place(&mut self) -> *mut u64 {
        if self.general_offset >= 48 {
            // The rest are on the stack.
            let place = self.overflow.cast_mut();
            self.overflow = self.overflow.wrapping_add(1);
            return place;
        }
        // The first six were in registers, which have been saved.
        let place = self.saved.wrapping_add(self.general_offset as usize);
        self.general_offset += 8;
        place.cast_mut().cast()
    }

    unsafe fn stacked(&mut self) -> u64 {
        // SAFETY: there is one more.
        let value = unsafe { self.overflow.read() };
        self.overflow = self.overflow.wrapping_add(1);
        value
    }

    unsafe fn skip_double(&mut self) {
        if self.vector_offset < 176 {
            self.vector_offset += 16;
        } else {
            // SAFETY: the rest are on the stack.
            unsafe { self.stacked() };
        }
    }

    /// `long double` is always on the stack, aligned to 16 bytes.
    fn skip_long_double(&mut self) {
        self.overflow = ((self.overflow as usize).next_multiple_of(16) + 16) as *const u64;
    }
}

/// A format as bytes, measured without the C library's `strlen`, which the runtime interposes.
unsafe fn bytes_of<'a>(format: *const c_char) -> &'a [u8] {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        std::slice::from_raw_parts(format.cast(), raw::length(fixed::in_pool(format as u64) as *const u8))
    }
}

/// Where `%n` leaves its results: in volatile memory first, if the destination is PM.
#[derive(Default)]
struct Counts(Vec<Count>);

/// One `%n`: the argument, its original target, its width, and the volatile replacement.
struct Count {
    argument: *mut u64,
    target: u64,
    bytes: usize,
    here: Box<u64>,
}

impl Counts {
    unsafe fn redirect(&mut self, argument: *mut u64, bytes: usize) {
        // SAFETY: the list has this argument, and the called function may modify it.
        unsafe {
            let target = argument.read();
            if fixed::is_persistent(target) {
                let mut here = Box::new(0);
                argument.write(&raw mut *here as u64);
                self.0.push(Count { argument, target, bytes, here });
            }
        }
    }

    /// Stores the counts.
    unsafe fn store(self, site: *const Site) {
        for Count { argument, target, bytes, here } in self.0 {
            // SAFETY: the program vouches for its pointers, as it would to the C library.
            unsafe {
                argument.write(target);
                write(target as *mut u8, &raw const *here, bytes, site);
            }
        }
    }
}

/// Makes everything the format reads from PM ready for reading.
unsafe fn read_arguments(format: *const c_char, arguments: *const Arguments, site: *const Site) -> Counts {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        let mut counts = Counts::default();
        if fixed::is_persistent(format as u64) {
            text_length(format, site);
        }
        let mut arguments = *arguments;
        let mut precision = None;
        for argument in printed(bytes_of(format)) {
            let limit = match argument {
                Argument::Text(limit) => limit,
                Argument::TextOfPrecision => precision,
                Argument::Precision => {
                    precision = usize::try_from(arguments.general() as i32).ok();
                    continue;
                }
                Argument::General => {
                    arguments.general();
                    continue;
                }
                Argument::Double => {
                    arguments.skip_double();
                    continue;
                }
                Argument::LongDouble => {
                    arguments.skip_long_double();
                    continue;
                }
                Argument::Count(bytes) => {
                    counts.redirect(arguments.general_place(), bytes);
                    continue;
                }
            };
            let text = arguments.general() as *const c_char;
            if fixed::is_persistent(text as u64) {
                text_length_within(text, limit.unwrap_or(usize::MAX), site);
            }
        }
        counts
    }
}

type Format = unsafe extern "C" fn(*mut c_char, usize, *const c_char, *mut Arguments) -> c_int;

/// Formats into volatile memory, then stores the result to PM. `room` is the size of the destination.
unsafe fn format_into(
    to: *mut c_char,
    room: usize,
    format: *const c_char,
    arguments: *mut Arguments,
    site: *const Site,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        static VSNPRINTF: Real = Real::new("vsnprintf\0", None);
        let print: Format = std::mem::transmute(VSNPRINTF.get());
        let mut copy = *arguments;
        let length = print(std::ptr::null_mut(), 0, format, &raw mut copy);
        let Ok(wanted) = usize::try_from(length) else { return length };
        let mut text = vec![0u8; wanted + 1];
        print(text.as_mut_ptr().cast(), text.len(), format, arguments);
        if room > 0 {
            let kept = wanted.min(room - 1);
            text[kept] = 0;
            write(to, text.as_ptr(), kept + 1, site);
        }
        length
    }
}

type File = *mut c_void;

/// How a variadic function calls its second half, whose frame has 216 bytes of stack.
macro_rules! pass {
    (stack) => {
        "sub rsp, 8\npush qword ptr [rsp + 224]\ncall {body}\nadd rsp, 16"
    };
    ($register:ident) => {
        concat!("mov ", stringify!($register), ", [rsp + 216]\ncall {body}")
    };
}

/// Defines a function that takes a `va_list` in the register `list`, and its variadic variant.
macro_rules! formats {
    ($(
        fn $name:ident, $variadic:ident($($arg:ident: $ty:ty,)* ; $format:ident, $with:ident),
            fixed($fixed:literal) list($list:ident) caller($caller:ident) first($first:ident)
        |$site:ident| $body:block
    )*) => { $(
        const _: () = {
            static REAL: Real = Real::new(concat!(stringify!($name), "\0"), None);

            #[inline(always)]
            unsafe fn real($($arg: $ty,)* $format: *const c_char, with: *mut Arguments) -> c_int {
                // SAFETY: the symbol has this type; the program vouches for the arguments.
                unsafe {
                    let function: unsafe extern "C" fn($($ty,)* *const c_char, *mut Arguments) -> c_int =
                        std::mem::transmute(REAL.get());
                    // Its reads have been announced already.
                    let _open = crate::protection::Opened::new();
                    function($($arg,)* $format, with)
                }
            }

            unsafe extern "C" fn body($($arg: $ty,)* $format: *const c_char, $with: *mut Arguments, caller: usize) -> c_int {
                // SAFETY: the program vouches for its pointers, as it would to the C library.
                unsafe {
                    if !recording() {
                        return real($($arg,)* $format, $with);
                    }
                    let $site = callers::site(caller);
                    let counts = $first($format, $with, $site);
                    let result = $body;
                    if !counts.0.is_empty() {
                        counts.store($site);
                    }
                    result
                }
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name($($arg: $ty,)* $format: *const c_char, with: *mut Arguments) -> c_int {
                std::arch::naked_asm!(enter!($caller), body = sym body)
            }

            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $variadic() -> c_int {
                std::arch::naked_asm!(
                    // 24 bytes for the list and 176 for registers, aligned to 16.
                    "sub rsp, 216",
                    "mov [rsp + 32], rdi",
                    "mov [rsp + 40], rsi",
                    "mov [rsp + 48], rdx",
                    "mov [rsp + 56], rcx",
                    "mov [rsp + 64], r8",
                    "mov [rsp + 72], r9",
                    "test al, al",
                    "je 2f",
                    "movaps [rsp + 80], xmm0",
                    "movaps [rsp + 96], xmm1",
                    "movaps [rsp + 112], xmm2",
                    "movaps [rsp + 128], xmm3",
                    "movaps [rsp + 144], xmm4",
                    "movaps [rsp + 160], xmm5",
                    "movaps [rsp + 176], xmm6",
                    "movaps [rsp + 192], xmm7",
                    "2:",
                    concat!("mov dword ptr [rsp], ", $fixed),
                    "mov dword ptr [rsp + 4], 48",
                    "lea rax, [rsp + 224]",
                    "mov [rsp + 8], rax",
                    "lea rax, [rsp + 32]",
                    "mov [rsp + 16], rax",
                    concat!("mov ", stringify!($list), ", rsp"),
                    pass!($caller),
                    "add rsp, 216",
                    "ret",
                    body = sym body,
                )
            }
        };
    )* };
}

formats! {
    fn vsnprintf, snprintf(to: *mut c_char, room: usize, ; format, with),
        fixed(24) list(rcx) caller(r8) first(read_arguments)
    |site| {
        if fixed::is_persistent(to as u64) { format_into(to, room, format, with, site) } else { real(to, room, format, with) }
    }

    fn __vsnprintf_chk, __snprintf_chk(
        to: *mut c_char, room: usize, flag: c_int, size: usize, ; format, with
    ), fixed(40) list(r9) caller(stack) first(read_arguments)
    |site| {
        if fixed::is_persistent(to as u64) && room <= size {
            format_into(to, room, format, with, site)
        } else {
            real(to, room, flag, size, format, with)
        }
    }

    fn vsprintf, sprintf(to: *mut c_char, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_arguments)
    |site| {
        if fixed::is_persistent(to as u64) { format_into(to, usize::MAX, format, with, site) } else { real(to, format, with) }
    }

    fn __vsprintf_chk, __sprintf_chk(to: *mut c_char, flag: c_int, size: usize, ; format, with),
        fixed(32) list(r8) caller(r9) first(read_arguments)
    |site| {
        if fixed::is_persistent(to as u64) {
            format_into(to, usize::MAX, format, with, site)
        } else {
            real(to, flag, size, format, with)
        }
    }

    fn vprintf, printf(; format, with), fixed(8) list(rsi) caller(rdx) first(read_arguments)
    |site| { real(format, with) }

    fn __vprintf_chk, __printf_chk(flag: c_int, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_arguments)
    |site| { real(flag, format, with) }

    fn vfprintf, fprintf(file: File, ; format, with), fixed(16) list(rdx) caller(rcx) first(read_arguments)
    |site| { real(file, format, with) }

    fn __vfprintf_chk, __fprintf_chk(file: File, flag: c_int, ; format, with),
        fixed(24) list(rcx) caller(r8) first(read_arguments)
    |site| { real(file, flag, format, with) }

    fn vdprintf, dprintf(descriptor: c_int, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_arguments)
    |site| {
        if files::of(descriptor).is_some() {
            format_to_file(descriptor, format, with, site)
        } else {
            real(descriptor, format, with)
        }
    }

    fn __vdprintf_chk, __dprintf_chk(descriptor: c_int, flag: c_int, ; format, with),
        fixed(24) list(rcx) caller(r8) first(read_arguments)
    |site| {
        if files::of(descriptor).is_some() {
            format_to_file(descriptor, format, with, site)
        } else {
            real(descriptor, flag, format, with)
        }
    }

    fn vasprintf, asprintf(to: *mut *mut c_char, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_arguments)
    |site| {
        with_result(to, site, |to| {
            let length = real(to, format, with);
            if length >= 0 {
                *to = heap::handed_over((*to).cast(), length as usize + 1, site).cast();
            }
            length
        })
    }

    fn vsscanf, sscanf(text: *const c_char, ; format, with), fixed(16) list(rdx) caller(rcx) first(read_format)
    |site| { text_length(text, site); scan_into(format, with, site, |with| real(text, format, with)) }

    fn __isoc99_vsscanf, __isoc99_sscanf(text: *const c_char, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_format)
    |site| { text_length(text, site); scan_into(format, with, site, |with| real(text, format, with)) }

    fn __isoc23_vsscanf, __isoc23_sscanf(text: *const c_char, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_format)
    |site| { text_length(text, site); scan_into(format, with, site, |with| real(text, format, with)) }

    fn vfscanf, fscanf(file: File, ; format, with), fixed(16) list(rdx) caller(rcx) first(read_format)
    |site| { scan_into(format, with, site, |with| real(file, format, with)) }

    fn __isoc99_vfscanf, __isoc99_fscanf(file: File, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_format)
    |site| { scan_into(format, with, site, |with| real(file, format, with)) }

    fn __isoc23_vfscanf, __isoc23_fscanf(file: File, ; format, with),
        fixed(16) list(rdx) caller(rcx) first(read_format)
    |site| { scan_into(format, with, site, |with| real(file, format, with)) }
}

/// Formats, and writes the result to a followed file.
unsafe fn format_to_file(
    descriptor: c_int,
    format: *const c_char,
    with: *mut Arguments,
    site: *const Site,
) -> c_int {
    static REAL: Real = Real::new("vasprintf\0", None);
    // SAFETY: that is the real function's type; the program vouches for its pointers, as it would to the C library.
    unsafe {
        let format_text: unsafe extern "C" fn(*mut *mut c_char, *const c_char, *mut Arguments) -> c_int =
            std::mem::transmute(REAL.get());
        let mut text = std::ptr::null_mut();
        let length = {
            let _open = Opened::new();
            format_text(&raw mut text, format, with)
        };
        if length < 0 {
            return length;
        }
        let written = files::write(descriptor, text.cast(), length as usize, None, site);
        libc::free(text.cast());
        written.map_or(-1, |written| written as c_int)
    }
}

unsafe fn read_format(format: *const c_char, _with: *const Arguments, site: *const Site) -> Counts {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe { text_length(format, site) };
    Counts::default()
}

/// Scans with `scan`; results bound for PM go to volatile memory first.
unsafe fn scan_into(
    format: *const c_char,
    with: *mut Arguments,
    site: *const Site,
    scan: impl FnOnce(*mut Arguments) -> c_int,
) -> c_int {
    // SAFETY: the program vouches for its pointers, as it would to the C library.
    unsafe {
        /// Room per string or character block.
        const ROOM: usize = 64 << 10;
        let conversions = scanned(bytes_of(format));
        let mut original = *with;
        let targets: Vec<u64> = conversions.iter().map(|_| original.general()).collect();
        if !targets.iter().any(|target| fixed::is_persistent(*target)) {
            return scan(with);
        }
        let mut buffers: Vec<Vec<u8>> = targets
            .iter()
            .map(|target| if fixed::is_persistent(*target) { vec![0; ROOM] } else { Vec::new() })
            .collect();
        let pointers: Vec<u64> = targets
            .iter()
            .zip(&mut buffers)
            .map(|(target, buffer)| if buffer.is_empty() { *target } else { buffer.as_mut_ptr() as u64 })
            .collect();
        // A `va_list` whose arguments all lie on the stack.
        let mut volatile = Arguments {
            general_offset: 48,
            vector_offset: 176,
            overflow: pointers.as_ptr(),
            saved: std::ptr::null(),
        };
        let count = scan(&raw mut volatile);
        let mut left = count;
        for ((written, counts), (target, buffer)) in conversions.iter().zip(targets.iter().zip(&buffers)) {
            if *counts && left <= 0 {
                break;
            }
            left -= c_int::from(*counts);
            if !buffer.is_empty() {
                let bytes = match written {
                    Written::Bytes(bytes) => *bytes,
                    Written::Text => buffer.iter().position(|byte| *byte == 0).map_or(0, |end| end + 1),
                };
                write(*target as *mut u8, buffer.as_ptr(), bytes, site);
            }
        }
        count
    }
}
