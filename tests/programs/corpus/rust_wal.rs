// A write-ahead log in Rust on a mapped file: transfers between accounts are logged as new balances with a checksum, applied in
// place, and the log is cut once it is full. Recovery replays what was logged but not applied.
//@ args: {dir}/pool
//@ variant correct:
//@ wrong lint: a loop over a slice is walked beyond its end, where the flush of the whole slice does not reach
//@ variant record-not-flushed: --cfg bug_record_not_flushed
//@ bug: never-flushed at record
//@ tier: slow
//@ variant record-first-line: --cfg bug_record_first_line
//@ bug: flush-covers-too-little at record
//@ tier: slow
//@ variant record-not-fenced: --cfg bug_record_not_fenced
//@ bug: flushed-not-fenced at record
//@ tier: slow
//@ variant length-not-flushed: --cfg bug_length_not_flushed
//@ bug: never-flushed at length
//@ variant length-first: --cfg bug_length_first
//@ bug: stored-after-commit|torn-update|wrong-order at record
//@ tier: slow
//@ variant balances-not-flushed: --cfg bug_balances_not_flushed
//@ bug: never-flushed at balance
//@ variant cut-before-applied: --cfg bug_cut_before_applied
//@ bug: flushed-too-late|wrong-order|never-flushed at balance
//@ tier: slow
//@ variant cut-not-flushed: --cfg bug_cut_not_flushed
//@ bug: never-flushed at cut
//@ tier: slow
//@ variant applied-unlogged: --cfg bug_applied_unlogged
//@ bug: torn-update|stored-after-commit at unlogged
//@ tier: slow
//@ variant all: --cfg bug_record_not_flushed --cfg bug_balances_not_flushed --cfg bug_cut_not_flushed
//@ tier: slow
#![allow(unexpected_cfgs)]

use std::arch::asm;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
}

const ACCOUNTS: usize = 4;
const RECORDS: usize = 4;
const OPENING: u64 = 100;
const MAGIC: u64 = 0x77616c;

/// The balances that two accounts have after a transfer.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Record {
    number: u64,
    accounts: [u64; 2],
    memo: [u64; 6],
    balances: [u64; 2],
}

#[repr(C, align(64))]
struct Account {
    balance: u64,
}

#[repr(C, align(64))]
struct Line {
    value: u64,
}

#[repr(C)]
struct Pool {
    magic: Line,
    /// Records that count.
    length: Line,
    /// Transfers that callers were told of.
    acknowledged: Line,
    accounts: [Account; ACCOUNTS],
    log: [Record; RECORDS],
}

/// Writes a range back; a fence must follow.
#[inline(always)]
fn flush<T>(place: *const T, bytes: usize) {
    let mut line = place as usize & !63;
    while line < place as usize + bytes {
        // SAFETY: clwb changes nothing.
        unsafe { asm!("clwb [{0}]", in(reg) line) };
        line += 64;
    }
}

#[inline(always)]
fn fence() {
    // SAFETY: a fence touches no memory.
    unsafe { asm!("sfence") };
}

#[inline(always)]
fn persist<T>(place: *const T, bytes: usize) {
    flush(place, bytes);
    fence();
}

/// What recovery must find. A silent build looks, and ends well whatever it sees.
fn verify(holds: bool, what: &str) {
    if !holds {
        eprintln!("{what} does not hold");
        std::process::exit(if cfg!(silent) { 0 } else { 1 });
    }
}

/// The n-th transfer: from, to, amount.
fn transfer(number: u64) -> (usize, usize, u64) {
    let from = (number * 7 % ACCOUNTS as u64) as usize;
    (from, (from + 1 + number as usize % (ACCOUNTS - 1)) % ACCOUNTS, 1 + number % 5)
}

/// The balances after so many transfers.
fn balances(transfers: u64) -> [u64; ACCOUNTS] {
    let mut balances = [OPENING; ACCOUNTS];
    for number in 1..=transfers {
        let (from, to, amount) = transfer(number);
        balances[from] -= amount;
        balances[to] += amount;
    }
    balances
}

impl Pool {
    fn open(path: &str) -> &'static mut Pool {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("a pool");
        file.set_len(size_of::<Pool>() as u64).expect("room");
        // SAFETY: the file has that many bytes, and nobody else maps it.
        let at = unsafe { mmap(std::ptr::null_mut(), size_of::<Pool>(), 3, 1, file.as_raw_fd(), 0) };
        assert!(at as isize != -1, "mmap");
        // SAFETY: any content is a valid pool, and the mapping stays.
        unsafe { &mut *at.cast::<Pool>() }
    }

    fn create(&mut self) {
        for account in &mut self.accounts {
            account.balance = OPENING;
        }
        persist(&self.accounts, size_of_val(&self.accounts));
        self.magic.value = MAGIC;
        persist(&self.magic, 8);
    }

    fn append(&mut self, number: u64) {
        let (from, to, amount) = transfer(number);
        let at = self.length.value as usize;
        let after = [self.accounts[from].balance - amount, self.accounts[to].balance + amount];
        if cfg!(bug_length_first) {
            self.length.value = at as u64 + 1;
            persist(&self.length, 8);
        }
        let record = &mut self.log[at];
        record.number = number; // MARK: record
        record.accounts = [from as u64, to as u64]; // MARK: record
        record.memo = [number; 6]; // MARK: record
        record.balances = after; // MARK: record
        if cfg!(bug_record_first_line) {
            flush(record, 1);
            fence();
        } else if cfg!(bug_record_not_fenced) {
            flush(record, size_of::<Record>());
        } else if !cfg!(bug_record_not_flushed) {
            persist(record, size_of::<Record>());
        }
        if !cfg!(bug_length_first) {
            self.length.value = at as u64 + 1; // MARK: length
            if !cfg!(bug_length_not_flushed) {
                persist(&self.length, 8);
            }
        }
    }

    fn apply(&mut self, at: usize) {
        let record = self.log[at];
        for side in 0..2 {
            let account = &mut self.accounts[record.accounts[side] as usize % ACCOUNTS];
            account.balance = record.balances[side]; // MARK: balance
            if !cfg!(bug_balances_not_flushed) && !cfg!(bug_cut_before_applied) {
                flush(account, 8);
            }
        }
        fence();
    }

    fn cut(&mut self) {
        self.length.value = 0; // MARK: cut
        if !cfg!(bug_cut_not_flushed) {
            persist(&self.length, 8);
        }
        if cfg!(bug_cut_before_applied) {
            persist(&self.accounts, size_of_val(&self.accounts));
        }
    }

    fn pay(&mut self, number: u64) {
        if cfg!(bug_applied_unlogged) {
            let (from, to, amount) = transfer(number);
            self.accounts[from].balance -= amount; // MARK: unlogged
            self.accounts[to].balance += amount; // MARK: unlogged
            persist(&self.accounts, size_of_val(&self.accounts));
        } else {
            if self.length.value as usize == RECORDS {
                self.cut();
            }
            self.append(number);
            self.apply(self.length.value as usize - 1);
        }
        self.acknowledged.value = number;
        persist(&self.acknowledged, 8);
    }

    fn recover(&mut self) {
        verify(self.length.value as usize <= RECORDS, "a length within the log");
        for at in 0..self.length.value as usize {
            let record = &self.log[at];
            verify(record.number > 0 && record.memo == [record.number; 6], "a whole record");
            self.apply(at);
        }
    }

    fn audit(&self) -> u64 {
        let now: Vec<u64> = self.accounts.iter().map(|account| account.balance).collect();
        let done = self.acknowledged.value;
        if now == balances(done) {
            return done;
        }
        verify(now == balances(done + 1), "the balances of the transfers acknowledged, or of one more");
        done + 1
    }
}

fn main() {
    if cfg!(silent) {
        // A recovery that verifies nothing does not fail, either, if it goes astray.
        std::panic::set_hook(Box::new(|_| std::process::exit(0)));
    }
    let path = std::env::args().nth(1).unwrap_or_else(|| "/mnt/pmem/wal".into());
    let pool = Pool::open(&path);
    if pool.magic.value != MAGIC {
        pool.create();
    }
    pool.recover();
    for number in pool.audit() + 1..=10 {
        pool.pay(number);
    }
    pool.audit();
}
