//! Effects on memory and ordering, in px86's terms.

/// The position of an argument in a call.
pub type Argument = u8;

/// A flush instruction. All of them accept any address of a line.
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
    /// Its class in the model.
    #[must_use]
    pub fn class(self) -> px86::order::Class {
        match self {
            Flush::Clflush => px86::order::Class::Flush,
            Flush::Clflushopt | Flush::Clwb => px86::order::Class::FlushOpt,
        }
    }
}

/// A fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// `sfence`.
    Store,
    /// `mfence`, and every locked instruction, regardless of the memory it accesses.
    Full,
}

impl Fence {
    /// Its class in the model.
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
    /// A constant.
    Constant(u64),
    /// This argument, times a constant.
    Argument(Argument, u64),
    /// The product of two arguments.
    Product(Argument, Argument),
    /// The string at this argument after the call, with its terminator; each character has this many bytes.
    Text(Argument, u64),
}

/// How much memory an effect touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it.
    Exactly(Length),
    /// Some of it, from the start; on success at least the first byte.
    AtMost(Length),
    /// An unknown part of the object pointed to.
    Unknown,
}

/// One effect of a call on memory or ordering. The arguments it names are pointers.
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
        /// Through the cache or bypassing it.
        manner: Manner,
    },
    /// Reads memory.
    Read {
        /// Where it starts.
        from: Argument,
        /// How much.
        extent: Extent,
    },
    /// Writes memory with plain stores of unknown values.
    Write {
        /// Where it starts.
        to: Argument,
        /// How much.
        extent: Extent,
    },
    /// Writes an unknown part of the object that a pointer in memory points to.
    WriteThrough {
        /// Where that pointer is.
        list: Argument,
    },
    /// Writes memory that is reachable only through lists in the arguments: buffers of `readv`, a `va_list` of
    /// pointers.
    WriteAnywhere,
    /// Copies memory. The ranges may overlap.
    Copy {
        /// Where it goes.
        to: Argument,
        /// Where it comes from.
        from: Argument,
        /// How much.
        extent: Extent,
        /// Through the cache or bypassing it.
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
    /// The argument whose memory it stores to, if any.
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

/// How a store reaches memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Through the cache.
    Plain,
    /// Bypassing the cache, unordered with other stores.
    NonTemporal,
    /// By a locked `xchg`, which is a fence, regardless of the memory it accesses.
    Exchange,
}

/// A vector access of some lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lanes {
    /// The pointer, or the vector of pointers.
    pub address: Argument,
    /// How the lanes lie in memory.
    pub at: LanesAt,
    /// The stored value; `None` for a load.
    pub value: Option<Argument>,
    /// The result of a load in disabled lanes; zero if there is no such argument.
    pub otherwise: Option<Argument>,
    /// Which lanes are accessed.
    pub mask: Mask,
    /// Of a store.
    pub manner: Manner,
}

/// How the lanes of a vector lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LanesAt {
    /// Consecutively, with gaps for disabled lanes.
    Contiguous,
    /// Enabled lanes consecutively.
    Compressed,
    /// Anywhere: the address is a vector of pointers.
    Scattered,
    /// At offsets from the address: a vector of indices, times a scale.
    Indexed {
        /// The vector.
        index: Argument,
        /// The constant.
        scale: Argument,
    },
}

/// The argument that enables lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// A vector of bits.
    Bits(Argument),
    /// A vector with lanes of the same width as the value; their sign bits count.
    Signs(Argument),
}
