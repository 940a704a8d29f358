//! The text of a finding, written by `narrate`.

use crashproof_findings::{Cause, Place, Related};

/// A finding in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    /// Cause and consequence.
    pub title: String,
    /// The explanation, and the identifier of the cause.
    pub cause: Option<Cause>,
    /// Advice.
    pub advice: Vec<String>,
    /// The places involved, in the order things happened.
    pub related: Vec<Related>,
    /// Where recovery failed, innermost first.
    pub failed_at: Option<Place>,
}
