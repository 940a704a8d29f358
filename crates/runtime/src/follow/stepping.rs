//! The last resort: the page becomes accessible for one instruction, and its changes are stored.
//!
//! The instruction's reads remain unknown, so the verdict is UNKNOWN; the caller has reported that.

use crashproof_protocol::ALIAS_OFFSET;
use crashproof_protocol::abi::Site;
use px86::Kind;
use px86::line::words;

use super::instruction::register;
use crate::cell::RunningThreadCell;
use crate::system::{give_up, raw_syscall};
use crate::{access, raw};

const PAGE: usize = 4096;
/// The processor flag for single-stepping (TF).
const STEP: i64 = 0x100;

struct Stepped {
    /// An instruction may cross a page and have several operands; gathers have sixteen.
    pages: [u64; 32],
    count: usize,
    /// The instruction's place; `None` if nothing should be recorded.
    site: Option<*const Site>,
    content: [u8; PAGE],
}

static STEPPED: RunningThreadCell<Stepped> =
    RunningThreadCell::new(Stepped { pages: [0; 32], count: 0, site: None, content: [0; PAGE] });

fn protect(page: u64, rights: i32) {
    // SAFETY: a page of the window.
    let result = unsafe { raw_syscall(libc::SYS_mprotect, [page as usize, PAGE, rights as usize, 0, 0, 0]) };
    if result != 0 {
        give_up("cannot change the rights of a page of persistent memory");
    }
}

/// Copies between the window and its alias or a buffer, without translating addresses.
unsafe fn copy(to: u64, from: u64, bytes: usize) {
    // SAFETY: both are accessible.
    unsafe {
        std::arch::asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags));
    }
}

/// Makes the page of an address accessible until the instruction has run.
pub(crate) unsafe fn open(context: &mut libc::ucontext_t, address: u64, site: Option<*const Site>) {
    let page = address / PAGE as u64 * PAGE as u64;
    let fits = STEPPED.with(|stepped| {
        let Some(slot) = stepped.pages.get_mut(stepped.count) else { return false };
        *slot = page;
        stepped.count += 1;
        stepped.site = site;
        true
    });
    if !fits {
        give_up("an instruction touches more than 32 pages of persistent memory");
    }
    protect(page, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the page was opened.
    unsafe { copy(page, page + ALIAS_OFFSET, PAGE) };
    *register(context, libc::REG_EFL) |= STEP;
}

/// Called once the instruction has run; `false` if there was none.
pub(crate) unsafe fn close(context: &mut libc::ucontext_t) -> bool {
    let (pages, count, site) = STEPPED.with(|stepped| {
        let count = std::mem::take(&mut stepped.count);
        (stepped.pages, count, stepped.site)
    });
    if count == 0 {
        return false;
    }
    *register(context, libc::REG_EFL) &= !STEP;
    for page in &pages[..count] {
        let page = *page;
        STEPPED.with(|stepped| {
            // SAFETY: the page is open.
            unsafe { copy(stepped.content.as_mut_ptr() as u64, page, PAGE) }
        });
        // SAFETY: the window's own page is no longer needed.
        unsafe {
            raw_syscall(libc::SYS_madvise, [page as usize, PAGE, libc::MADV_DONTNEED as usize, 0, 0, 0])
        };
        protect(page, libc::PROT_NONE);
        let content = STEPPED.as_ptr();
        // SAFETY: whole pages; only an instruction in another thread could change the content in the meantime, and it
        // would have been stepped over before.
        unsafe {
            let content = &raw const (*content).content as u64;
            let Some(site) = site else {
                copy(page + ALIAS_OFFSET, content, PAGE);
                continue;
            };
            for word in words(page, PAGE as u64) {
                let (offset, width) = (word.offset, u64::from(word.width));
                if raw::peek(content + offset, width) != raw::peek(word.address, width) {
                    let value = raw::peek(content + offset, width);
                    access::store(Kind::Store, word.address, width, value, site);
                }
            }
        }
    }
    true
}
