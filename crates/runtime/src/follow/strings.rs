//! Emulates string instructions element by element: the hardware guarantees no more, repeated or not.

use crashproof_protocol::abi::{Site, is_pm};
use iced_x86::Mnemonic;
use px86::Kind;

use super::instruction::{Instructed, register};
use crate::{access, fixed, raw};

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ADJUST: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const DOWN: u64 = 1 << 10;
const OVERFLOW: u64 = 1 << 11;

/// The flags after a comparison of two values of `width` bytes.
fn compared(one: u64, other: u64, width: u64) -> u64 {
    let bits = 8 * width as u32;
    let mask = u64::MAX >> (64 - bits);
    let (one, other) = (one & mask, other & mask);
    let difference = one.wrapping_sub(other) & mask;
    let sign = 1 << (bits - 1);
    let mut flags = 0;
    let mut set = |flag, on| flags |= if on { flag } else { 0 };
    set(CARRY, one < other);
    set(PARITY, (difference as u8).count_ones().is_multiple_of(2));
    set(ADJUST, one & 15 < other & 15);
    set(ZERO, difference == 0);
    set(SIGN, difference & sign != 0);
    set(OVERFLOW, (one ^ other) & (one ^ difference) & sign != 0);
    flags
}

unsafe fn load(address: u64, width: u64, announced: bool, site: *const Site) -> u64 {
    let address = fixed::in_pool(address);
    // SAFETY: the program itself would access it.
    unsafe {
        if is_pm(address) && !announced {
            access::load(address, width, site)
        } else {
            raw::peek(address, width)
        }
    }
}

unsafe fn store(address: u64, width: u64, value: u64, announced: bool, site: *const Site) {
    let value = value & u64::MAX >> (64 - 8 * width);
    let address = fixed::in_pool(address);
    // SAFETY: the program itself would access it.
    unsafe {
        if is_pm(address) && !announced {
            access::store(Kind::Store, address, width, value, site);
        } else {
            raw::poke(address, width, value);
        }
    }
}

/// Emulates a string instruction; `false` if it is of another kind.
///
/// # Safety
///
/// The context is that of the instruction.
pub(crate) unsafe fn perform(
    context: &mut libc::ucontext_t,
    instruction: &Instructed,
    announced: bool,
    site: *const Site,
) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum What {
        Move,
        Store,
        Load,
        Scan,
        Compare,
    }
    let (what, width) = match instruction.mnemonic() {
        Mnemonic::Movsb => (What::Move, 1),
        Mnemonic::Movsw => (What::Move, 2),
        Mnemonic::Movsd => (What::Move, 4),
        Mnemonic::Movsq => (What::Move, 8),
        Mnemonic::Stosb => (What::Store, 1),
        Mnemonic::Stosw => (What::Store, 2),
        Mnemonic::Stosd => (What::Store, 4),
        Mnemonic::Stosq => (What::Store, 8),
        Mnemonic::Lodsb => (What::Load, 1),
        Mnemonic::Lodsw => (What::Load, 2),
        Mnemonic::Lodsd => (What::Load, 4),
        Mnemonic::Lodsq => (What::Load, 8),
        Mnemonic::Scasb => (What::Scan, 1),
        Mnemonic::Scasw => (What::Scan, 2),
        Mnemonic::Scasd => (What::Scan, 4),
        Mnemonic::Scasq => (What::Scan, 8),
        Mnemonic::Cmpsb => (What::Compare, 1),
        Mnemonic::Cmpsw => (What::Compare, 2),
        Mnemonic::Cmpsd => (What::Compare, 4),
        Mnemonic::Cmpsq => (What::Compare, 8),
        _ => return false,
    };
    let decoded = &instruction.decoded;
    let (while_equal, while_different) = (decoded.has_rep_prefix(), decoded.has_repne_prefix());
    let repeats = while_equal || while_different;
    let mut flags = *register(context, libc::REG_EFL) as u64;
    let step = if flags & DOWN != 0 { (width as i64).wrapping_neg() } else { width as i64 };
    let mut left = if repeats { *register(context, libc::REG_RCX) as u64 } else { 1 };
    // SAFETY: the program itself would access the addresses.
    unsafe {
        while left > 0 {
            let (from, to) =
                (*register(context, libc::REG_RSI) as u64, *register(context, libc::REG_RDI) as u64);
            let accumulator = *register(context, libc::REG_RAX) as u64;
            match what {
                What::Move => store(to, width, load(from, width, announced, site), announced, site),
                What::Store => store(to, width, accumulator, announced, site),
                What::Load => {
                    let value = load(from, width, announced, site);
                    // Four-byte loads clear the upper half, narrower ones preserve the remaining bits.
                    let kept = if width < 4 { accumulator & !(u64::MAX >> (64 - 8 * width)) } else { 0 };
                    *register(context, libc::REG_RAX) = (kept | value) as i64;
                }
                What::Scan => {
                    let value = load(to, width, announced, site);
                    flags = flags & !(CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW)
                        | compared(accumulator, value, width);
                }
                What::Compare => {
                    let one = load(from, width, announced, site);
                    let other = load(to, width, announced, site);
                    flags = flags & !(CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW)
                        | compared(one, other, width);
                }
            }
            if matches!(what, What::Move | What::Load | What::Compare) {
                *register(context, libc::REG_RSI) += step;
            }
            if what != What::Load {
                *register(context, libc::REG_RDI) += step;
            }
            left -= 1;
            if repeats {
                *register(context, libc::REG_RCX) = left as i64;
            }
            let equal = flags & ZERO != 0;
            let compares = matches!(what, What::Scan | What::Compare);
            if compares && (while_equal && !equal || while_different && equal) {
                break;
            }
        }
    }
    *register(context, libc::REG_EFL) = flags as i64;
    *register(context, libc::REG_RIP) = instruction.end() as i64;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_set_the_flags() {
        assert_eq!(compared(5, 5, 8), ZERO | PARITY);
        assert_eq!(compared(0x1ff, 0xff, 1), ZERO | PARITY, "of one byte");
        assert_eq!(compared(1, 2, 4), CARRY | SIGN | ADJUST | PARITY);
        assert_eq!(compared(0x80, 1, 1) & OVERFLOW, OVERFLOW);
    }
}
