//! What `narrate` says of a finding.

use crashproof_findings::{Cause, Place, Related};

/// A finding in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    /// Cause and consequence.
    pub title: String,
    /// Why, and the name of the cause for programs.
    pub cause: Option<Cause>,
    /// What to do about it.
    pub advice: Vec<String>,
    /// The places that are part of it, in the order things happened.
    pub related: Vec<Related>,
    /// Where recovery failed, innermost first.
    pub failed_at: Option<Place>,
}
