//! The interface between instrumented programs and the runtime.
//!
//! The instrumenting plugin emits calls to the functions listed here, the runtime implements them. The
//! prose (who calls what, when, what must hold) is in `crates/instrument/abi/crashproof_abi.h`; this
//! module is the same text for Rust. Both sides are held together by tests: the plugin declares its
//! callees from [`FUNCTIONS`], and a test of the plugin reads the header and compares every signature.
//!
//! The runtime implements a function as
//!
//! ```ignore
//! #[unsafe(no_mangle)]
//! extern "C" fn __crashproof_store8(address: *mut c_void, value: u64, site: *const Site) { .. }
//! const _: crate::abi::signature::__crashproof_store8 = __crashproof_store8;
//! ```
//!
//! where the last line makes the compiler compare the two signatures.

use core::ffi::{c_char, c_void};

/// Version of this interface. A module built for another version must be refused.
pub const VERSION: u32 = 4;

/// An address is in the PM window if, shifted right by this, it equals [`PM_WINDOW`].
pub const PM_SHIFT: u32 = 44;

/// See [`PM_SHIFT`].
pub const PM_WINDOW: u64 = 1;

/// First address of the PM window. AddressSanitizer's shadow reaches to just below `PM_BASE + 2 GiB`, so
/// a runtime that wants to live with it maps nothing in the first 4 GiB.
pub const PM_BASE: u64 = PM_WINDOW << PM_SHIFT;

/// One past the last address of the PM window.
pub const PM_END: u64 = (PM_WINDOW + 1) << PM_SHIFT;

/// Section in which sites lie.
pub const SITE_SECTION: &str = "crashproof_sites";

/// Section attribute that makes a global persistent.
pub const PM_SECTION: &str = "crashproof_pm";

/// Whether an address lies in the PM window: what instrumented code asks inline.
#[must_use]
pub const fn is_pm(address: u64) -> bool {
    address >> PM_SHIFT == PM_WINDOW
}

/// A place in the source that touches memory, flushes or fences. One static object per distinct place.
#[repr(C)]
#[derive(Debug)]
pub struct Site {
    /// [`SITE_MAGIC`] in the upper half, `FLAG_*` in bits 8..16, one of [`kind`] in bits 0..8.
    pub tag: u32,
    /// Bytes accessed, 0 where the size is an argument of the call or there is none.
    pub size: u32,
    /// 1-based, 0 if the compiler knows no line.
    pub line: u32,
    /// 1-based, 0 if unknown.
    pub column: u32,
    /// As the compiler was given it. Never null.
    pub file: *const c_char,
    /// Demangled. Never null.
    pub function: *const c_char,
    /// The call into which `function` was inlined, or null.
    pub inlined_at: *const Frame,
    /// Why a site of kind [`kind::UNKNOWN`] is not understood, the text of an [`kind::ASM`] site, or null.
    pub text: *const c_char,
}

/// A call that was inlined: `function` called the next inner frame at this place.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// Line of the call.
    pub line: u32,
    /// Column of the call.
    pub column: u32,
    /// File of the call.
    pub file: *const c_char,
    /// The calling function.
    pub function: *const c_char,
    /// The next outer call, or null.
    pub inlined_at: *const Frame,
}

// Sites are immutable once the dynamic linker has relocated them.
#[allow(unsafe_code, reason = "static data made by the plugin, never written")]
unsafe impl Sync for Site {}
#[allow(unsafe_code, reason = "static data made by the plugin, never written")]
unsafe impl Sync for Frame {}

impl Site {
    /// One of [`kind`], or `None` if this is not a site.
    #[must_use]
    pub const fn kind(&self) -> Option<u8> {
        if self.tag & 0xffff_0000 == SITE_MAGIC { Some((self.tag & 0xff) as u8) } else { None }
    }

    /// Whether all given `FLAG_*` are set.
    #[must_use]
    pub const fn has(&self, flags: u32) -> bool {
        self.tag & flags == flags
    }
}

/// Upper half of [`Site::tag`].
pub const SITE_MAGIC: u32 = 0xC5A7_0000;

/// The access is atomic in the source language.
pub const FLAG_ATOMIC: u32 = 1 << 8;

/// The access is volatile-qualified in the source language.
pub const FLAG_VOLATILE: u32 = 1 << 9;

/// What a site does.
pub mod kind {
    /// Loads, of any size.
    pub const LOAD: u8 = 1;
    /// Stores, of any size.
    pub const STORE: u8 = 2;
    /// Non-temporal stores.
    pub const NT_STORE: u8 = 3;
    /// Locked read-modify-write, a sequentially consistent store included.
    pub const RMW: u8 = 4;
    /// Locked compare and exchange.
    pub const CAS: u8 = 5;
    /// Block copy between distinct objects.
    pub const MEMCPY: u8 = 6;
    /// Block copy between objects that may overlap.
    pub const MEMMOVE: u8 = 7;
    /// Block fill.
    pub const MEMSET: u8 = 8;
    /// Masked or scattered load.
    pub const GATHER: u8 = 9;
    /// Masked or scattered store.
    pub const SCATTER: u8 = 10;
    /// `clflush`.
    pub const CLFLUSH: u8 = 11;
    /// `clflushopt`.
    pub const CLFLUSHOPT: u8 = 12;
    /// `clwb`.
    pub const CLWB: u8 = 13;
    /// `sfence`.
    pub const SFENCE: u8 = 14;
    /// `mfence`, or a sequentially consistent fence of the language.
    pub const MFENCE: u8 = 15;
    /// Inline assembly whose memory operands are known.
    pub const ASM: u8 = 16;
    /// Something that is not understood; see [`super::Site::text`].
    pub const UNKNOWN: u8 = 17;
    /// `pause`.
    pub const PAUSE: u8 = 18;
}

/// Operations of `__crashproof_rmw`. The compiler itself turns all others into a compare-exchange loop.
pub mod rmw {
    /// The new value is the operand.
    pub const XCHG: u32 = 0;
    /// Wrapping addition.
    pub const ADD: u32 = 1;
    /// Wrapping subtraction.
    pub const SUB: u32 = 2;
    /// Bitwise and.
    pub const AND: u32 = 3;
    /// Bitwise or.
    pub const OR: u32 = 4;
    /// Bitwise exclusive or.
    pub const XOR: u32 = 5;
    /// The new value is the operand and the old one is not used: a sequentially consistent store. It fences as the
    /// others do, but reads nothing; what the call returns as the old value means nothing.
    pub const SET: u32 = 6;
}

/// Flags of `__crashproof_asm_before` and `__crashproof_asm_after`.
pub mod asm {
    /// The assembly may read the range.
    pub const READ: u32 = 1;
    /// The assembly may write the range.
    pub const WRITE: u32 = 2;
    /// With a lock prefix, or an `xchg`: an RMW, and a full fence.
    pub const LOCKED: u32 = 4;
    /// The write is non-temporal.
    pub const NONTEMPORAL: u32 = 8;
}

/// A persistent global. The program finds the global through `address`, which the runtime fills in.
///
/// Descriptors have the linkage of the global they stand for, so several modules may name one descriptor.
#[repr(C)]
#[derive(Debug)]
pub struct PmGlobal {
    /// Null until the runtime has given the global a place in the PM window.
    pub address: *mut c_void,
    /// Bytes.
    pub size: u64,
    /// Power of two.
    pub align: u64,
    /// Initial content, `size` bytes, or null if all zero. Used only when the pool is new.
    pub init: *const c_void,
    /// Symbol name, prefixed with `file:` if it is local to its file.
    pub name: *const c_char,
    /// Pointers to persistent globals inside `init`: [`PmFixup::place`] is an offset.
    pub fixups: *const PmFixup,
    /// How many.
    pub fixup_count: u64,
}

/// A pointer-sized place that must hold `target.address + addend`.
#[repr(C)]
#[derive(Debug)]
pub struct PmFixup {
    /// An address in volatile memory, or an offset into the initial content of a persistent global.
    pub place: u64,
    /// The persistent global pointed to. It may belong to a module that is not registered yet; the runtime
    /// then gives it its address on the spot.
    pub target: *mut PmGlobal,
    /// Offset into `target`.
    pub addend: i64,
}

/// A type of the interface, as the plugin needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// No result.
    Void,
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// Any pointer.
    Pointer,
}

/// Name and shape of one function of the interface.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Symbol.
    pub name: &'static str,
    /// Parameter names and types.
    pub params: &'static [(&'static str, Type)],
    /// Result.
    pub result: Type,
}

/// The types a signature may use.
trait Described {
    const TYPE: Type;
}
impl Described for () {
    const TYPE: Type = Type::Void;
}
impl Described for u32 {
    const TYPE: Type = Type::U32;
}
impl Described for u64 {
    const TYPE: Type = Type::U64;
}
impl<T> Described for *const T {
    const TYPE: Type = Type::Pointer;
}
impl<T> Described for *mut T {
    const TYPE: Type = Type::Pointer;
}

macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($param:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// Every function of the interface.
        pub const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            params: &[$((stringify!($param), <$type as Described>::TYPE)),*],
            result: functions!(@result $($result)?),
        }),*];

        /// The type of each function, for the runtime to check its own definitions against.
        #[allow(non_camel_case_types, reason = "named after the symbols")]
        pub mod signature {
            use super::{PmFixup, PmGlobal, Site, c_void};
            $($(#[$doc])* pub type $name = unsafe extern "C" fn($($type),*) $(-> $result)?;)*
        }

        /// Declarations, for Rust code that calls the runtime.
        #[allow(unsafe_code, reason = "declares the symbols of the runtime")]
        pub mod calls {
            use super::{PmFixup, PmGlobal, Site, c_void};
            unsafe extern "C" { $($(#[$doc])* pub fn $name($($param: $type),*) $(-> $result)?;)* }
        }
    };
    (@result) => { <() as Described>::TYPE };
    (@result $result:ty) => { <$result as Described>::TYPE };
}

functions! {
    /// First call of every instrumented module, from a constructor of the highest priority.
    fn __crashproof_register_module(version: u32, begin: *const Site, end: *const Site);
    /// Persistent globals of a module, and the volatile places that hold their addresses.
    fn __crashproof_register_globals(
        begin: *const *mut PmGlobal,
        end: *const *mut PmGlobal,
        fixups: *const PmFixup,
        fixups_end: *const PmFixup,
    );

    /// From a constructor of every instrumented module that comes after those that register, and before the program's
    /// own: whatever is linked together has registered. `module` is an address in the module.
    fn __crashproof_registered(module: *const c_void);

    /// Load of 1 byte, zero-extended.
    fn __crashproof_load1(address: *const c_void, site: *const Site) -> u64;
    /// Load of 2 bytes, zero-extended.
    fn __crashproof_load2(address: *const c_void, site: *const Site) -> u64;
    /// Load of 4 bytes, zero-extended.
    fn __crashproof_load4(address: *const c_void, site: *const Site) -> u64;
    /// Load of 8 bytes.
    fn __crashproof_load8(address: *const c_void, site: *const Site) -> u64;
    /// Load of any other size into volatile memory.
    fn __crashproof_load_n(destination: *mut c_void, address: *const c_void, bytes: u64, site: *const Site);

    /// Store of the lowest byte of `value`.
    fn __crashproof_store1(address: *mut c_void, value: u64, site: *const Site);
    /// Store of the lowest 2 bytes of `value`.
    fn __crashproof_store2(address: *mut c_void, value: u64, site: *const Site);
    /// Store of the lowest 4 bytes of `value`.
    fn __crashproof_store4(address: *mut c_void, value: u64, site: *const Site);
    /// Store of 8 bytes.
    fn __crashproof_store8(address: *mut c_void, value: u64, site: *const Site);
    /// Store of any other size from volatile memory.
    fn __crashproof_store_n(address: *mut c_void, source: *const c_void, bytes: u64, site: *const Site);

    /// `movnti` of 4 bytes.
    fn __crashproof_nt_store4(address: *mut c_void, value: u64, site: *const Site);
    /// `movnti` of 8 bytes.
    fn __crashproof_nt_store8(address: *mut c_void, value: u64, site: *const Site);
    /// Non-temporal store of any other size from volatile memory.
    fn __crashproof_nt_store_n(address: *mut c_void, source: *const c_void, bytes: u64, site: *const Site);

    /// Locked read-modify-write of 1, 2, 4 or 8 bytes; returns the old value, zero-extended.
    fn __crashproof_rmw(
        address: *mut c_void,
        bytes: u32,
        operation: u32,
        operand: u64,
        site: *const Site,
    ) -> u64;
    /// Locked read-modify-write of 16 bytes.
    fn __crashproof_rmw16(
        address: *mut c_void,
        operation: u32,
        operand: *const c_void,
        old: *mut c_void,
        site: *const Site,
    );
    /// Locked compare and exchange of 1, 2, 4 or 8 bytes; returns the old value, zero-extended. It succeeded if that
    /// equals `expected`. A failed one is still a fence.
    fn __crashproof_cas(
        address: *mut c_void,
        bytes: u32,
        expected: u64,
        desired: u64,
        site: *const Site,
    ) -> u64;
    /// Locked compare and exchange of 16 bytes; returns 1 if it stored.
    fn __crashproof_cas16(
        address: *mut c_void,
        expected: *const c_void,
        desired: *const c_void,
        old: *mut c_void,
        site: *const Site,
    ) -> u32;

    /// Block copy; either side may be volatile, ranges do not overlap unless equal.
    fn __crashproof_memcpy(destination: *mut c_void, source: *const c_void, bytes: u64, site: *const Site);
    /// Block copy; either side may be volatile, ranges may overlap.
    fn __crashproof_memmove(destination: *mut c_void, source: *const c_void, bytes: u64, site: *const Site);
    /// Block fill with the lowest byte of `byte`.
    fn __crashproof_memset(destination: *mut c_void, byte: u32, bytes: u64, site: *const Site);

    /// For each lane whose mask byte is not 0: load `lane_bytes` from `addresses[lane]` into
    /// `destination + lane * lane_bytes`. Addresses may be volatile.
    fn __crashproof_gather(
        destination: *mut c_void,
        addresses: *const *const c_void,
        mask: *const u8,
        lane_bytes: u32,
        lanes: u32,
        site: *const Site,
    );
    /// For each lane whose mask byte is not 0, in order: store `lane_bytes` from
    /// `source + lane * lane_bytes` to `addresses[lane]`. Addresses may be volatile.
    fn __crashproof_scatter(
        addresses: *const *mut c_void,
        source: *const c_void,
        mask: *const u8,
        lane_bytes: u32,
        lanes: u32,
        site: *const Site,
    );

    /// `clflush` of the line of an address in PM.
    fn __crashproof_clflush(address: *const c_void, site: *const Site);
    /// `clflushopt` of the line of an address in PM.
    fn __crashproof_clflushopt(address: *const c_void, site: *const Site);
    /// `clwb` of the line of an address in PM.
    fn __crashproof_clwb(address: *const c_void, site: *const Site);
    /// `sfence`; the instruction itself is gone.
    fn __crashproof_sfence(site: *const Site);
    /// `mfence` or a sequentially consistent fence; the instruction itself is gone.
    fn __crashproof_mfence(site: *const Site);

    /// Before an atomic or volatile access of volatile memory, which the site describes: a place where threads may be
    /// switched if the run explores schedules.
    fn __crashproof_before(address: *const c_void, bytes: u64, site: *const Site);
    /// After a locked instruction on volatile memory, null if the place is not known: a full fence for this
    /// thread. `stored` is 0 if memory is as it was before, as after a failed compare-and-swap.
    fn __crashproof_locked(address: *const c_void, stored: u32, site: *const Site);
    /// After an atomic or volatile access of volatile memory that is no fence, and after `pause`, whose address
    /// is null: a place where threads may be switched, and must be if the program spins.
    fn __crashproof_sync(address: *const c_void, site: *const Site);

    /// In place of `rdtsc`: a clock that shows the same in every run.
    fn __crashproof_cycles() -> u64;
    /// In place of `rdrand` and `rdseed`: numbers that are the same in every run.
    fn __crashproof_random() -> u64;

    /// Before inline assembly that accesses `bytes` bytes of PM: memory must hold what the thread sees.
    fn __crashproof_asm_before(address: *mut c_void, bytes: u64, flags: u32, site: *const Site);
    /// After it: what changed since was written by it.
    fn __crashproof_asm_after(address: *mut c_void, bytes: u64, flags: u32, site: *const Site);

    /// Something that is not understood is about to run; `address` is the PM it was given, or null if that
    /// is not known either. Verdicts are UNKNOWN from here on.
    fn __crashproof_unknown(address: *const c_void, site: *const Site);
}
