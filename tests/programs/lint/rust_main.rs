// A Rust program: its main is what the runtime of Rust is given, and its pool comes in an Option, in registers.
//@ args: {dir}/table
//@ prove: skip (it reads C and C++)
//@ variant right: --cfg right
//@ check: clean
//@ lint: clean, no warnings
//@ variant record: --cfg record_unflushed
//@ check: recovery-fails at id
//@ check: recovery-fails at note
//@ lint: unflushed-write at id
//@ lint: unflushed-write at note
//@ variant first-line: --cfg first_line
//@ check: recovery-fails at note
//@ lint: unflushed-write at note
//@ variant count: --cfg count_unflushed
//@ check: clean
//@ lint: unflushed-write at count
#![allow(unexpected_cfgs)]
use std::arch::asm;
use std::ffi::{CString, c_char, c_int, c_void};

unsafe extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn ftruncate(fd: c_int, length: i64) -> c_int;
    fn mmap(at: *mut c_void, bytes: usize, prot: c_int, flags: c_int, fd: c_int, from: i64) -> *mut c_void;
    fn close(fd: c_int) -> c_int;
}

const READ_WRITE_CREATE: c_int = 0o102;

#[repr(C, align(64))]
struct Record {
    id: u64,
    note: [u8; 96],
}

#[repr(C, align(64))]
struct Count(u64);

#[repr(C)]
struct Table {
    count: Count,
    records: [Record; 8],
}

struct Pool {
    table: *mut Table,
}

fn flush<T>(what: *const T) {
    let (mut line, end) = (what as usize & !63, what as usize + size_of::<T>());
    while line < end {
        unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) };
        line += 64;
    }
}

fn persist<T>(what: *const T) {
    flush(what);
    unsafe { core::arch::x86_64::_mm_sfence() }
}

impl Pool {
    fn open(path: &str) -> Option<Pool> {
        let path = CString::new(path).ok()?;
        unsafe {
            let fd = open(path.as_ptr(), READ_WRITE_CREATE, 0o644);
            if fd < 0 || ftruncate(fd, size_of::<Table>() as i64) != 0 {
                return None;
            }
            let base = mmap(std::ptr::null_mut(), size_of::<Table>(), 3, 1, fd, 0);
            close(fd);
            if base as isize == -1 { None } else { Some(Pool { table: base.cast() }) }
        }
    }

    fn len(&self) -> usize {
        unsafe { (*self.table).count.0 as usize }
    }

    fn add(&mut self, id: u64, note: &str) {
        let n = self.len();
        let table = unsafe { &mut *self.table };
        let record = &mut table.records[n];
        record.id = id; // MARK: id
        record.note[..note.len()].copy_from_slice(note.as_bytes()); // MARK: note
        if cfg!(first_line) {
            persist(&record.id);
        } else if !cfg!(record_unflushed) {
            persist(record);
        }
        table.count.0 = n as u64 + 1; // MARK: count
        if !cfg!(count_unflushed) {
            persist(&table.count);
        }
    }

    fn check(&self) {
        let table = unsafe { &*self.table };
        for (i, record) in table.records[..self.len()].iter().enumerate() {
            assert_eq!(record.id, i as u64 + 1);
            assert_eq!(record.note[60], b'x');
        }
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("a path");
    let mut pool = Pool::open(&path).expect("the pool can be mapped");
    pool.check();
    let note = "x".repeat(80);
    while pool.len() < 2 {
        let id = pool.len() as u64 + 1;
        pool.add(id, &note);
    }
    println!("{}", pool.len());
}
