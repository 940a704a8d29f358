//! The order in which the corners of crash points are tried (see `corners`).

/// Kinds of corners, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Nothing lost, everything lost.
    Ends,
    /// Each line alone lost or surviving.
    Lines,
    /// The moments in between.
    Moments,
}

impl Stage {
    pub(crate) const ALL: [Stage; 3] = [Stage::Ends, Stage::Lines, Stage::Moments];
}
