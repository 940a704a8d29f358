//! What code means: for each intrinsic of LLVM, each atomic operation and ordering, each function of the C library that
//! touches memory it is given and each assembly instruction, what it does to memory and ordering in px86's terms.
//!
//! This is the single source of truth for instrument, lint and prove. It is plain data and knows nothing of LLVM: a
//! caller asks by name ([`intrinsic`], [`library`], [`instruction`]) or by shape ([`store`], [`fence`]) and translates
//! the answer into its own terms. Whatever is not listed is *not understood*, and an engine that meets it must not
//! give a verdict as if nothing had happened.
//!
//! To add an intrinsic, function or instruction: one line in the file of its family, and one test program.

mod atomics;
mod instructions;
mod intrinsics;
mod library;

pub use atomics::{Manner, Ordering, Scope, Stored, fence, is_stored_non_temporally, store};
pub use instructions::{Compute, Instruction, Prefixes, Use, access_bytes, instruction};
pub use intrinsics::{Lanes, LanesAt, Mask, Meaning, Operation, intrinsic};
pub use library::{Function, Returns, library};

/// The position of an argument in a call.
pub type Argument = u8;

/// Which flush. All of them take any address of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// `clflush`, ordered with stores.
    Clflush,
    /// `clflushopt`.
    Clflushopt,
    /// `clwb`.
    Clwb,
}

impl Flush {
    /// What it is to the model.
    #[must_use]
    pub fn class(self) -> px86::order::Class {
        match self {
            Flush::Clflush => px86::order::Class::Flush,
            Flush::Clflushopt | Flush::Clwb => px86::order::Class::FlushOpt,
        }
    }
}

/// Which fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// `sfence`.
    Store,
    /// `mfence`, and every locked instruction, whatever memory it works on.
    Full,
}

impl Fence {
    /// What it is to the model.
    #[must_use]
    pub fn class(self) -> px86::order::Class {
        match self {
            Fence::Store => px86::order::Class::StoreFence,
            Fence::Full => px86::order::Class::Fence,
        }
    }
}

/// A number of bytes, in terms of the arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Always as many.
    Constant(u64),
    /// This argument, times a constant.
    Argument(Argument, u64),
    /// The product of two arguments.
    Product(Argument, Argument),
    /// A string behind this argument, with its terminator; characters have so many bytes.
    Text(Argument, u64),
}

/// How much memory an effect touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it.
    Exactly(Length),
    /// Some of it, from the start on.
    AtMost(Length),
    /// Somewhere in the object that is pointed to.
    Unknown,
}

/// What a call does to memory or ordering, one thing at a time. Arguments named here are pointers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A load of a value of the type that the call returns.
    Load {
        /// Where.
        from: Argument,
    },
    /// A store of an argument, of that argument's width.
    Store {
        /// Where.
        to: Argument,
        /// What.
        value: Argument,
        /// Through the cache or past it.
        manner: Manner,
    },
    /// Reads memory.
    Read {
        /// Where it starts.
        from: Argument,
        /// How much.
        extent: Extent,
    },
    /// Writes memory with plain stores; what is written is not known.
    Write {
        /// Where it starts.
        to: Argument,
        /// How much.
        extent: Extent,
    },
    /// Writes somewhere in the object that a pointer in memory points to.
    WriteThrough {
        /// Where that pointer is.
        list: Argument,
    },
    /// Writes memory that arguments lead to only by way of lists: buffers of `readv`, a `va_list` of pointers.
    WriteAnywhere,
    /// Copies memory. The ranges may overlap.
    Copy {
        /// Where it goes.
        to: Argument,
        /// Where it comes from.
        from: Argument,
        /// How much.
        extent: Extent,
        /// Through the cache or past it.
        manner: Manner,
    },
    /// Copies a string to the end of another one.
    Append {
        /// The string that grows.
        to: Argument,
        /// Where it comes from.
        from: Argument,
    },
    /// Fills memory with plain stores.
    Fill {
        /// Where it starts.
        to: Argument,
        /// With what; zero if there is no such argument.
        value: Option<Argument>,
        /// How much.
        extent: Extent,
    },
    /// Loads or stores some lanes of a vector.
    Lanes(Lanes),
    /// Writes back a line.
    Flush {
        /// An address in it.
        at: Argument,
        /// How.
        flush: Flush,
    },
    /// A fence.
    Fence(Fence),
}

impl Effect {
    /// The argument whose memory it stores to, if there is one.
    #[must_use]
    pub fn stores_to(self) -> Option<Argument> {
        match self {
            Effect::Store { to, .. }
            | Effect::Write { to, .. }
            | Effect::Copy { to, .. }
            | Effect::Append { to, .. }
            | Effect::Fill { to, .. }
            | Effect::WriteThrough { list: to } => Some(to),
            Effect::Lanes(lanes) => lanes.value.map(|_| lanes.address),
            Effect::Load { .. }
            | Effect::Read { .. }
            | Effect::Flush { .. }
            | Effect::Fence(_)
            | Effect::WriteAnywhere => None,
        }
    }
}

#[cfg(test)]
mod tests;
